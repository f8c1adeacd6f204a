//! A deployed cluster boots: machines run what was rendered for them, with systemd, etcd and Kubernetes' own
//! servers.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::machine::{Machine, Seat};
use crate::world::{BALANCER, World, kubernetes_version, until};
use crate::{files_below, root, shown};

/// The highly available example with an identity provider, and the plugin that asks for one of everything.
const PLUGINS: &str = "  dex: {settings: {issuer: https://dex.acme.example, ca: certs/issuer.crt, connectors: {github: {type: github, name: GitHub, config: {clientID: x, clientSecret: {$secret: github}}}}}}
  probe: {enabled: true, nodePools: [general], roles: [controller]}
";
const TOKEN: &str = "canary-4711 @{node zone}\nsecond & \"line\" $HOME";

fn world() -> World {
    let world = World::of(&root().join("examples/ha/cluster.yaml"), &[], PLUGINS);
    world.lock();
    world.kaws(&["render"]);
    world.set_secret("dex/github", "canary-of-github");
    world.set_secret("probe/token", TOKEN);
    world.kaws(&["up", "--yes"]);
    world
}

fn volume(world: &World, name: &str) -> PathBuf {
    world.dir.path().join("volumes").join(name)
}

/// Boots a member of etcd with its volume, and waits until it is healthy.
fn etcd(world: &World, member: u32) -> Machine {
    world.ask("DELETE", "/mock/calls", &Value::Null);
    let mut machine = world.boot(world.etcd(member));
    machine.attach(world, &volume(world, &format!("etcd-{member}")));
    machine.comes_up(world, 90);
    machine
}

/// etcdctl on a member, as the programs there call it.
fn etcdctl(machine: &Machine, words: &[&str]) -> String {
    let mut all = vec!["/opt/kaws/bin/etcdctl", "--cacert", "/etc/kaws/etcd/ca.crt", "--cert"];
    all.extend(["/etc/kaws/etcd/client.crt", "--key", "/etc/kaws/etcd/client.key", "--endpoints"]);
    all.push("https://127.0.0.1:2379");
    all.extend(words);
    machine.fine(&all)
}

/// How many members answer.
fn healthy(machine: &Machine) -> usize {
    let said = etcdctl(machine, &["endpoint", "health", "--cluster", "--write-out", "json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    said.as_array().unwrap().iter().filter(|m| m["health"] == true).count()
}

/// A file of a bundle with everything filled in, from the objects that the machine may read.
fn expected(
    world: &World,
    machine: &Machine,
    text: &str,
    pki: &BTreeMap<String, String>,
) -> String {
    let mut whole = String::new();
    let mut rest = text.to_owned();
    let member = machine.seat.name.trim_start_matches("etcd-").to_owned();
    rest = rest.replace("@{pki etcd-@{node member}-", &format!("@{{pki etcd-{member}-"));
    while let Some(at) = rest.find("@{") {
        let end = at + rest[at..].find('}').unwrap();
        let (word, name) = rest[at + 2..end].split_once(' ').unwrap();
        let object = |key: &str| {
            let bytes = world.object(key).unwrap_or_else(|| panic!("{key} is missing"));
            String::from_utf8(bytes).unwrap()
        };
        let role = machine.seat.group.split(':').next().unwrap().replace("pool", "worker");
        let value = match word {
            "secret" => object(&format!("secrets/{name}")),
            "pki" => object(&format!("pki/{role}/{}", pki[name])),
            "node" => match name {
                "instance-id" => machine.seat.instance.clone(),
                "zone" => machine.seat.zone.clone(),
                "private-ip" => machine.seat.address.clone(),
                "member" => member.clone(),
                "group" => machine.seat.group.clone(),
                "region" => "eu-west-1".to_owned(),
                other => panic!("{other}"),
            },
            // As the template was filled in when it was deployed.
            "output" => {
                let line = machine
                    .seat
                    .user_data
                    .lines()
                    .find_map(|l| l.trim().strip_prefix(&format!("{name}=")));
                line.unwrap().to_owned()
            }
            other => panic!("{other}"),
        };
        whole.push_str(&rest[..at]);
        whole.push_str(&value);
        rest = rest[end + 1..].to_owned();
    }
    whole + &rest
}

/// Everything that was rendered for the machine is there, filled in, with its mode and owner.
fn is_what_was_rendered(world: &World, machine: &Machine) -> usize {
    let folder = machine.seat.group.replace(':', "-");
    let rendered = world.folder().join("rendered/nodes");
    let shared = machine.seat.group.starts_with("pool:").then(|| rendered.join("worker/bundle"));
    let mut files: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for tree in shared.into_iter().chain([rendered.join(folder).join("bundle")]) {
        for path in files_below(&tree) {
            files.insert(path.strip_prefix(&tree).unwrap().to_owned(), path);
        }
    }
    let text = |path: &str| {
        let path = files.get(&PathBuf::from(path));
        path.map(|p| std::fs::read_to_string(p).unwrap()).unwrap_or_default()
    };
    let pairs = |text: &str| -> BTreeMap<String, String> {
        text.lines()
            .filter_map(|l| l.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    };
    let pki = pairs(&text("etc/kaws/pki"));
    let mut attributes: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (path, file) in &files {
        if path.starts_with("etc/kaws/files.d") {
            let of = pairs(&std::fs::read_to_string(file).unwrap());
            attributes.insert(of["path"].clone(), of);
        }
    }
    let manifest: Value = serde_yaml::from_str(
        &std::fs::read_to_string(world.folder().join("rendered/manifest.yaml")).unwrap(),
    )
    .unwrap();
    for (path, file) in &files {
        let place = format!("/{}", path.display());
        let rendered = std::fs::read(file).unwrap();
        let found = machine.file(&place);
        let there = std::fs::read(&found).unwrap_or_else(|e| panic!("{place}: {e}"));
        let of = attributes.get(&place);
        if of.is_some_and(|of| of["fill"] == "true") {
            let wanted = expected(world, machine, &String::from_utf8(rendered).unwrap(), &pki);
            assert_eq!(String::from_utf8_lossy(&there), wanted, "{place}");
        } else {
            assert!(there == rendered, "{place}");
        }
        let meta = std::fs::metadata(&found).unwrap();
        let key = file.strip_prefix(world.folder().join("rendered")).unwrap().display().to_string();
        let mode = manifest["modes"][&key].as_str().unwrap_or("0644");
        assert_eq!(format!("{:04o}", meta.permissions().mode() & 0o7777), mode, "{place}");
        let owner = of.map_or("root", |of| of["owner"].as_str());
        let id = machine.fine(&["id", "-u", owner]);
        assert_eq!(meta.uid().to_string(), id.trim(), "{place}");
    }
    // And everything that was to be downloaded.
    for (path, file) in &files {
        if path.starts_with("etc/kaws/assets.d") {
            let of = pairs(&std::fs::read_to_string(file).unwrap());
            let meta = std::fs::metadata(machine.file(&of["path"])).unwrap();
            assert_eq!(format!("{:04o}", meta.permissions().mode() & 0o7777), of["mode"]);
        }
    }
    files.len()
}

/// Every call that machines made was allowed by their roles.
fn nothing_was_denied(world: &World) -> usize {
    let calls = world.ask("GET", "/mock/calls", &Value::Null);
    let by_machines: Vec<&Value> =
        calls.as_array().unwrap().iter().filter(|c| !c["by"].is_null()).collect();
    let denied: Vec<&&Value> = by_machines.iter().filter(|c| !c["denied"].is_null()).collect();
    assert!(denied.is_empty(), "{denied:?}");
    by_machines.len()
}

/// kubectl on a controller, as a user of a kubeconfig there.
fn kubectl(machine: &Machine, kubeconfig: &str, words: &[&str]) -> std::process::Output {
    let mut all = vec!["env", "HOME=/root", "/opt/kaws/bin/kubectl", "--kubeconfig", kubeconfig];
    all.extend(words);
    machine.run(&all)
}

const ADMIN: &str = "/etc/kubernetes/kaws-addons.kubeconfig";

fn asked(machine: &Machine, words: &[&str]) -> String {
    let output = kubectl(machine, ADMIN, words);
    assert!(output.status.success(), "kubectl {words:?}\n{}", shown(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Applies a text.
fn apply(machine: &Machine, kubeconfig: &str, object: &Value) -> std::process::Output {
    machine.write("/root/object.json", &object.to_string());
    kubectl(machine, kubeconfig, &["create", "-f", "/root/object.json"])
}

#[test]
fn a_cluster_boots() {
    let world = world();
    let mut members: Vec<Machine> = (0..3).map(|member| etcd(&world, member)).collect();
    assert_eq!(healthy(&members[0]), 3);
    only_those_who_are_known_reach_etcd(&members[0]);
    for member in &members {
        assert!(is_what_was_rendered(&world, member) > 30);
    }
    a_lost_volume_comes_back(&world, &mut members);

    // CloudFormation is asked too often by others: the signal comes all the same.
    let busy = json!({"action": "SignalResource", "code": "Throttling", "count": 2});
    world.ask("POST", "/mock/faults", &busy);
    let controller = world.boot(world.controller());
    controller.comes_up(&world, 150);
    assert!(is_what_was_rendered(&world, &controller) > 60);
    who_may_do_what(&world, &controller);
    secrets_are_encrypted(&controller, &members[0]);
    the_audit_log_fills(&controller);
    pod_security_refuses(&controller);
    the_issuers_tokens_count(&world, &controller);
    service_accounts_verify(&world, &controller);
    aggregation_headers_count(&controller);
    addons_come_in_order(&world, &controller);

    let forwarded = format!("{}:6443", controller.seat.address);
    let script = root().join("tests/real/forward.py");
    world.background(&[
        "python3",
        script.to_str().unwrap(),
        &format!("{BALANCER}:443"),
        &forwarded,
    ]);
    let worker = world.boot(world.worker("general"));
    a_node_joins(&worker);
    worker.comes_up(&world, 90);
    assert!(is_what_was_rendered(&world, &worker) > 60);
    let report = world.report("pool:general", &worker.seat.instance).unwrap();
    assert_eq!(report["state"], "healthy", "{report}");
    a_machine_says_how_its_units_are(&world, &worker);
    a_controller_reports_the_cluster(&world, &controller, &worker);
    pods_go_before_their_machine_does(&world, &controller, &worker);
    a_machine_that_starts_again_downloads_nothing(&worker);
    secrets_lie_where_they_belong(&world, &[&controller, &worker], &members);
    assert!(nothing_was_denied(&world) > 30);
    changed_addons_are_applied(&world, &controller);
    a_release_that_was_cut_off_is_taken_up_again(&world, &controller);
}

/// A machine that its group ends lets its pods go, and then tells its group. What has run to its end holds nobody up.
fn pods_go_before_their_machine_does(world: &World, controller: &Machine, worker: &Machine) {
    let node = worker.seat.instance.as_str();
    for name in ["mine", "over"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "a", "image": "a.example/a"}]}});
        let made = apply(controller, ADMIN, &pod);
        assert!(made.status.success(), "{}", shown(&made));
    }
    let succeeded = "{\"status\":{\"phase\":\"Succeeded\"}}";
    let over =
        ["-n", "default", "patch", "pod", "over", "--subresource", "status", "--patch", succeeded];
    asked(controller, &over);
    let field = format!("spec.nodeName={node}");
    let there = || {
        let words =
            ["-n", "default", "get", "pods", "--field-selector", &field, "--output", "name"];
        asked(controller, &words).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(there(), ["pod/mine", "pod/over"]);
    let fact = "http://169.254.169.254/latest/meta-data/autoscaling/target-lifecycle-state";
    worker.fine(&["curl", "-sSf", "-X", "POST", "-d", "Terminated", fact]);
    let completed = until(60, "the group is told", || {
        let calls = world.ask("GET", "/mock/calls", &Value::Null);
        let all = calls.as_array().unwrap().clone();
        all.into_iter().find(|c| c["action"] == "CompleteLifecycleAction")
    });
    assert!(completed["denied"].is_null(), "{completed}");
    assert_eq!(completed["parameters"]["InstanceId"], node, "{completed}");
    assert_eq!(there(), ["pod/over"]);
    let cordoned = ["get", "node", node, "--output", "jsonpath={.spec.unschedulable}"];
    assert_eq!(asked(controller, &cordoned), "true");
    worker.fine(&["curl", "-sSf", "-X", "POST", "-d", "InService", fact]);
    asked(controller, &["uncordon", node]);
    asked(controller, &["-n", "default", "delete", "pod", "over"]);
}

/// When a unit is no longer what it was, the machine says so, and again once it is well.
fn a_machine_says_how_its_units_are(world: &World, worker: &Machine) {
    let report = || world.report("pool:general", &worker.seat.instance).unwrap();
    assert_eq!(report()["units"]["kubelet.service"], "active", "{}", report());
    worker.fine(&["systemctl", "stop", "kubelet.service"]);
    worker.fine(&["systemctl", "start", "kaws-watch.service"]);
    let said = report();
    assert_eq!(said["state"], "unhealthy", "{said}");
    assert_eq!(said["unit"], "kubelet.service", "{said}");
    worker.fine(&["systemctl", "start", "kubelet.service"]);
    worker.fine(&["systemctl", "start", "kaws-watch.service"]);
    assert_eq!(report()["state"], "healthy", "{}", report());
    // What has not changed is not said again.
    let before = report();
    worker.fine(&["systemctl", "start", "kaws-watch.service"]);
    assert_eq!(report(), before);
}

/// Whoever cannot reach the API server is answered from what a controller says of it.
fn a_controller_reports_the_cluster(world: &World, controller: &Machine, worker: &Machine) {
    controller.fine(&["systemctl", "start", "kaws-report.service"]);
    let text = String::from_utf8(world.object("reports/controller/cluster.tsv").unwrap()).unwrap();
    let node = format!("node\t{}\t", worker.seat.instance);
    assert!(text.contains(&node) && text.ends_with("\nend\n"), "{text}");
    let output = world.command(&["validate", "--output", "json"]).output().unwrap();
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(&output)));
    let whose = format!("{} reported", controller.seat.instance);
    assert!(said["asked"].as_str().unwrap().contains(&whose), "{said}");
    let ready =
        said["checks"].as_array().unwrap().iter().find(|c| c["check"] == "api-server/ready");
    assert_eq!(ready.unwrap()["verdict"], "passed", "{said}");
}

fn only_those_who_are_known_reach_etcd(member: &Machine) {
    let ask = ["curl", "-s", "--cacert", "/etc/kaws/etcd/ca.crt"];
    let url = ["https://etcd-0.ha.internal:2379/health"];
    let stranger = member.run(&[&ask[..], &url[..]].concat());
    assert!(!stranger.status.success() && stranger.stdout.is_empty(), "{}", shown(&stranger));
    let own = ["--cert", "/etc/kaws/etcd/client.crt", "--key", "/etc/kaws/etcd/client.key"];
    let known = member.fine(&[&ask[..], &own[..], &url[..]].concat());
    assert!(known.contains("\"health\":\"true\""), "{known}");
}

/// A member with a new disk is taken back by the others, with its data.
fn a_lost_volume_comes_back(world: &World, members: &mut Vec<Machine>) {
    etcdctl(&members[0], &["put", "/proof", "here"]);
    members.pop().unwrap().stop();
    std::fs::remove_file(volume(world, "etcd-2")).unwrap();
    world.ask("DELETE", "/mock/signals", &Value::Null);
    members.push(etcd(world, 2));
    let member = members.last().unwrap();
    assert_eq!(healthy(member), 3);
    assert!(etcdctl(member, &["get", "/proof"]).contains("here"));
    let list = etcdctl(member, &["member", "list"]);
    assert_eq!(
        list.lines().filter(|l| l.contains("started") && l.ends_with("false")).count(),
        3,
        "{list}"
    );
    etcdctl(&members[0], &["del", "/proof"]);
    // Where what comes before etcd failed at first, etcd is started all the same once it has not.
    member.fine(&["systemctl", "stop", "etcd.service"]);
    member.fine(&["systemctl", "restart", "kaws-etcd-prepare.service"]);
    until(30, "etcd is started again", || {
        let said = member.run(&["systemctl", "is-active", "--quiet", "etcd.service"]);
        said.status.success().then_some(())
    });
    assert_eq!(healthy(&members[0]), 3);
}

fn who_may_do_what(world: &World, controller: &Machine) {
    let version: Value =
        serde_json::from_str(&asked(controller, &["get", "--raw", "/version"])).unwrap();
    assert_eq!(version["gitVersion"], format!("v{}", kubernetes_version()));
    let status = |path: &str, more: &[&str]| {
        let url = format!("https://127.0.0.1:6443{path}");
        let mut words = vec!["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"];
        words.push("/etc/kubernetes/pki/ca.crt");
        words.extend(more);
        words.push(&url);
        controller.fine(&words)
    };
    for path in ["/readyz", "/livez", "/healthz"] {
        assert_eq!(status(path, &[]), "200", "{path}");
    }
    for path in ["/version", "/api", "/metrics", "/openapi/v2"] {
        assert_eq!(status(path, &[]), "401", "{path}");
    }
    // People come in with a certificate of their own.
    let kubeconfig = world.kaws(&["kubeconfig"]);
    let kubeconfig =
        kubeconfig.replace("https://api.ha.k8s.acme.example", "https://127.0.0.1:6443");
    controller.write("/root/people.kubeconfig", &kubeconfig);
    until(90, "the bindings are applied", || {
        let said = kubectl(controller, "/root/people.kubeconfig", &["auth", "can-i", "*", "*"]);
        shown(&said).contains("yes").then_some(())
    });
    let who = shown(&kubectl(controller, "/root/people.kubeconfig", &["auth", "whoami"]));
    assert!(who.contains("kaws-admin") && who.contains("kaws:cluster-admins"), "{who}");
}

fn secrets_are_encrypted(controller: &Machine, member: &Machine) {
    asked(
        controller,
        &[
            "-n",
            "default",
            "create",
            "secret",
            "generic",
            "proof",
            "--from-literal=a=canary-in-etcd",
        ],
    );
    let raw = etcdctl(member, &["get", "/registry/secrets/default/proof"]);
    assert!(raw.contains("k8s:enc:secretbox:v1:encryption-1:"), "{raw}");
    assert!(!raw.contains("canary-in-etcd"));
    let back =
        asked(controller, &["-n", "default", "get", "secret", "proof", "-o", "jsonpath={.data.a}"]);
    assert_eq!(back, "Y2FuYXJ5LWluLWV0Y2Q=");
    let map = ["-n", "default", "create", "configmap", "proof", "--from-literal=a=plain-in-etcd"];
    asked(controller, &map);
    assert!(
        etcdctl(member, &["get", "/registry/configmaps/default/proof"]).contains("plain-in-etcd")
    );
}

fn the_audit_log_fills(controller: &Machine) {
    let log = controller.read("/var/log/kubernetes/audit/audit.log");
    let events: Vec<Value> = log.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    assert!(events.len() > 20, "{}", events.len());
    let secret = events
        .iter()
        .find(|e| e["objectRef"]["resource"] == "secrets" && e["objectRef"]["name"] == "proof");
    let secret = secret.expect("the secret's creation is in the log");
    assert_eq!(secret["level"], "Metadata");
    assert!(!log.contains("canary-in-etcd") && !log.contains("Y2FuYXJ5LWluLWV0Y2Q="));
    assert!(events.iter().all(|e| e["objectRef"]["resource"] != "leases"));
}

fn pod(name: &str, privileged: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [
        {"name": "a", "image": "a.example/a", "securityContext": {"privileged": privileged}}]}})
}

fn pod_security_refuses(controller: &Machine) {
    until(30, "the service account is there", || {
        kubectl(controller, ADMIN, &["-n", "default", "get", "serviceaccount", "default"])
            .status
            .success()
            .then_some(())
    });
    let refused = shown(&apply(controller, ADMIN, &pod("bad", true)));
    assert!(refused.contains("violates PodSecurity \"baseline:latest\": privileged"), "{refused}");
    let taken = apply(controller, ADMIN, &pod("good", false));
    assert!(taken.status.success(), "{}", shown(&taken));
}

fn the_issuers_tokens_count(world: &World, controller: &Machine) {
    let review = |token: &str| {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        controller.write("/root/review.json", &review.to_string());
        let said = asked(controller, &["create", "-f", "/root/review.json", "-o", "json"]);
        serde_json::from_str::<Value>(&said).unwrap()["status"].clone()
    };
    let said = until(60, "the API server has asked the issuer", || {
        let said = review(&world.token());
        (said["authenticated"] == true).then_some(said)
    });
    assert_eq!(said["user"]["username"], "dex:ana@acme.example", "{said}");
    assert!(said["user"]["groups"].as_array().unwrap().contains(&json!("dex:platform")), "{said}");
    let mut other = world.token();
    other.replace_range(other.len() - 8.., "AAAAAAAA");
    assert_ne!(review(&other)["authenticated"], true);
}

fn service_accounts_verify(world: &World, controller: &Machine) {
    let token = asked(controller, &["-n", "default", "create", "token", "default"]);
    let discovery = world.issuer_document(".well-known/openid-configuration");
    let keys = world.issuer_document("openid/v1/jwks");
    std::fs::write(world.dir.path().join("jwks.json"), keys.to_string()).unwrap();
    let check = "import base64, json, sys
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
raw = lambda t: base64.urlsafe_b64decode(t + '=' * (-len(t) % 4))
head, claims, signature = sys.argv[1].split('.')
[key] = [k for k in json.load(open(sys.argv[2]))['keys'] if k['kid'] == json.loads(raw(head))['kid']]
number = lambda t: int.from_bytes(raw(t), 'big')
public = rsa.RSAPublicNumbers(number(key['e']), number(key['n'])).public_key()
public.verify(raw(signature), (head + '.' + claims).encode(), padding.PKCS1v15(), hashes.SHA256())
print(json.dumps(json.loads(raw(claims))))";
    let file = world.dir.path().join("jwks.json");
    let said = crate::program(
        "python3",
        &["-c", check, token.trim(), file.to_str().unwrap()],
        world.dir.path(),
    );
    assert!(said.status.success(), "{}", shown(&said));
    let claims: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(claims["iss"], discovery["issuer"]);
    assert_eq!(claims["sub"], "system:serviceaccount:default:default");
    assert_eq!(
        discovery["jwks_uri"],
        json!(format!("{}/openid/v1/jwks", discovery["issuer"].as_str().unwrap()))
    );
    // And what the API server says of itself is the same.
    let own = asked(controller, &["get", "--raw", "/openid/v1/jwks"]);
    let own: Value = serde_json::from_str(&own).unwrap();
    assert_eq!(own["keys"][0]["kid"], keys["keys"][0]["kid"]);
    assert_eq!(own["keys"][0]["n"], keys["keys"][0]["n"]);
}

fn aggregation_headers_count(controller: &Machine) {
    let who = |certificate: &str| {
        let (file, key) = (
            format!("/etc/kubernetes/pki/{certificate}.crt"),
            format!("/etc/kubernetes/pki/{certificate}.key"),
        );
        let words = [
            "curl",
            "-s",
            "--cacert",
            "/etc/kubernetes/pki/ca.crt",
            "--cert",
            &file,
            "--key",
            &key,
        ];
        let more = [
            "-H",
            "X-Remote-User: ana",
            "-H",
            "X-Remote-Group: system:masters",
            "-H",
            "Content-Type: application/json",
        ];
        let ask = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        let url = "https://127.0.0.1:6443/apis/authentication.k8s.io/v1/selfsubjectreviews";
        controller.fine(&[&words[..], &more[..], &["-d", ask, url][..]].concat())
    };
    assert!(
        who("front-proxy-client").contains(r#""username": "ana""#),
        "{}",
        who("front-proxy-client")
    );
    assert!(!who("apiserver-kubelet-client").contains(r#""username": "ana""#));
}

/// Everything that is listed is applied, phase after phase.
fn addons_come_in_order(world: &World, controller: &Machine) {
    let report = until(180, "add-ons are applied", || {
        let report = world.report("controller", "addons")?;
        assert_ne!(report["state"], "failed", "{report}");
        (report["state"] == "healthy").then_some(report)
    });
    assert_eq!(report["message"], "everything is applied");
    let log =
        controller.fine(&["journalctl", "--no-pager", "--output", "cat", "--unit", "kaws-addons"]);
    let phases: Vec<&str> =
        log.lines().filter_map(|l| l.split_once(": ")).map(|(p, _)| p).collect();
    let order = ["base", "cni", "cloud", "dns", "storage", "identity", "apps"];
    let places: Vec<usize> =
        phases.iter().filter_map(|p| order.iter().position(|o| o == p)).collect();
    assert!(places.len() > 8 && places.is_sorted(), "{log}");
    for release in ["cilium", "cloud-provider", "coredns", "ebs-csi"] {
        let name = format!("{release}-was-here");
        asked(controller, &["-n", "kube-system", "get", "configmap", &name]);
    }
    // Secrets in values are filled in on the way, and lie nowhere else.
    let values = asked(
        controller,
        &["-n", "dex", "get", "configmap", "dex-was-here", "-o", "jsonpath={.data.values}"],
    );
    assert!(values.contains("canary-of-github"), "{values}");
    let helm = [
        "env",
        "HOME=/root",
        "KUBECONFIG=/etc/kubernetes/kaws-addons.kubeconfig",
        "/opt/kaws/bin/helm",
        "list",
        "-A",
        "-o",
        "json",
    ];
    let list: Value = serde_json::from_str(&controller.fine(&helm)).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 5, "{list}");
    // Looking again changes nothing.
    controller.fine(&["systemctl", "start", "kaws-addons.service"]);
    let again =
        controller.fine(&["journalctl", "--no-pager", "--output", "cat", "--unit", "kaws-addons"]);
    let applied = |log: &str| log.lines().filter(|l| l.starts_with("cni: ")).count();
    assert_eq!(applied(&again), applied(&log));
}

/// What a kubelet does on a new node, with what lies on its disk.
fn a_node_joins(worker: &Machine) {
    until(60, "the worker has its kubeconfig", || {
        worker.file("/etc/kubernetes/bootstrap-kubelet.kubeconfig").exists().then_some(())
    });
    until(60, "the worker has kubectl", || {
        worker.file("/opt/kaws/bin/kubectl").exists().then_some(())
    });
    worker.write(
        "/root/joins.sh",
        &std::fs::read_to_string(root().join("tests/real/joins.sh")).unwrap(),
    );
    let name = worker.seat.instance.clone();
    let zone = worker.seat.zone.clone();
    let output = worker.run(&["bash", "/root/joins.sh", &name, &zone]);
    assert!(output.status.success(), "{}", shown(&output));
}

/// Nothing outside is needed for a machine to start again.
fn a_machine_that_starts_again_downloads_nothing(worker: &Machine) {
    let nowhere = "set -a; . /etc/kaws/node.env; https_proxy=http://127.0.0.1:9";
    let again = worker.run(&["bash", "-c", &format!("{nowhere} /opt/kaws/bin/kaws-node assets")]);
    assert!(again.status.success(), "{}", shown(&again));
    worker.fine(&["test", "-x", "/opt/kaws/bin/kubelet"]);
}

/// The files of a machine that have a text in them, among those that it has written since it began: what it has from
/// the system below lies in no layer of its own.
fn holds(machine: &Machine, text: &str) -> Vec<String> {
    let written = machine.file("/");
    let found = crate::program("grep", &["-rlF", text, "."], &written);
    let in_memory = machine.run(&["grep", "-rlF", text, "/run"]);
    let lines = [found.stdout, in_memory.stdout].concat();
    let lines = String::from_utf8(lines).unwrap();
    lines.lines().map(|l| l.trim_start_matches('.').to_owned()).collect()
}

/// Secrets are in the files that name them, with one reader, and nowhere else.
fn secrets_lie_where_they_belong(world: &World, with: &[&Machine], without: &[Machine]) {
    for machine in with {
        let config = machine.read("/etc/probe/config");
        assert!(config.contains(TOKEN), "{config}");
        assert_eq!(holds(machine, "canary-4711"), ["/etc/probe/config"]);
        let journal = machine.fine(&["journalctl", "--no-pager", "--all", "--output", "verbose"]);
        assert!(journal.len() > 10_000 && !journal.contains("canary-4711"));
    }
    for machine in without {
        assert!(holds(machine, "canary-4711").is_empty());
    }
    // Nor in what was rendered, or in what is sent up for machines.
    let found = crate::program(
        "grep",
        &["-rlF", "-e", "canary-", "-e", "PRIVATE KEY", "."],
        &world.folder(),
    );
    assert!(found.stdout.is_empty(), "{}", shown(&found));
}

/// A changed release reaches the cluster, and no machine is replaced for it.
fn changed_addons_are_applied(world: &World, controller: &Machine) {
    let path = world.folder().join("cluster.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("  dex: {", "  descheduler: {}\n  dex: {enabled: false, "))
        .unwrap();
    world.internet();
    world.lock();
    world.kaws(&["render"]);
    let said = world.kaws(&["up", "--yes"]);
    assert!(said.contains("descheduler") && said.contains("uninstalled"), "{said}");
    controller.fine(&["systemctl", "start", "kaws-addons.service"]);
    asked(controller, &["-n", "kube-system", "get", "configmap", "descheduler-was-here"]);
    let gone = kubectl(controller, ADMIN, &["-n", "dex", "get", "configmap", "dex-was-here"]);
    assert!(!gone.status.success(), "{}", shown(&gone));
}

/// Makes the last change of a release look as if Helm had been killed in it. From a Secret on standard input.
const CUT_OFF: &str = "import base64, gzip, json, sys
secret = json.load(sys.stdin)['items'][-1]
raw = gzip.decompress(base64.b64decode(base64.b64decode(secret['data']['release'])))
release = json.loads(raw)
release['info']['status'] = secret['metadata']['labels']['status'] = 'pending-upgrade'
packed = base64.b64encode(gzip.compress(json.dumps(release).encode()))
secret['data']['release'] = base64.b64encode(packed).decode()
print(json.dumps(secret))";

/// A controller that dies while Helm works leaves a release that Helm itself never touches again.
fn a_release_that_was_cut_off_is_taken_up_again(world: &World, controller: &Machine) {
    use std::io::Write as _;
    let label = "owner=helm,name=coredns";
    let all = ["-n", "kube-system", "get", "secret", "--selector", label, "--output", "json"];
    let secrets = asked(controller, &all);
    let mut python = std::process::Command::new("python3")
        .args(["-c", CUT_OFF])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(secrets.as_bytes()).unwrap();
    let broken = python.wait_with_output().unwrap();
    controller.write("/root/broken.json", &String::from_utf8(broken.stdout).unwrap());
    asked(controller, &["replace", "-f", "/root/broken.json"]);

    let path = world.folder().join("cluster.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let changed = text.replace("  descheduler: {}", "  coredns: {settings: {replicas: 3}}");
    assert_ne!(text, changed);
    std::fs::write(&path, changed).unwrap();
    world.kaws(&["up", "--yes", "--render"]);
    controller.fine(&["systemctl", "set-environment", "KAWS_RELEASE_LIMIT=86400"]);
    let looks = || controller.run(&["systemctl", "start", "kaws-addons.service"]).status.success();
    assert!(!looks(), "it may still be under way, on another controller");
    let report = world.report("controller", "addons").unwrap();
    let said = report["message"].as_str().unwrap();
    assert!(said.contains("another operation (install/upgrade/rollback) is in progress"), "{said}");
    controller.fine(&["systemctl", "set-environment", "KAWS_RELEASE_LIMIT=20"]);
    assert!(looks(), "{}", controller.journal());
    let values = ["-n", "kube-system", "get", "configmap", "coredns-was-here", "--output", "json"];
    assert!(asked(controller, &values).contains("\\\"replicaCount\\\":3"));
}

/// Boots a worker that will not come up, and returns what it reports.
fn fails(world: &World, seat: Seat) -> Value {
    world.ask("DELETE", "/mock/signals", &Value::Null);
    let group = seat.group.clone();
    let machine = world.boot(seat);
    assert_eq!(machine.signalled(world, 120), "FAILURE");
    let report = world.report(&group, &machine.seat.instance).unwrap();
    assert_eq!(report["state"], "failed", "{report}");
    report
}

#[test]
fn what_goes_wrong_on_a_machine_is_signalled_and_reported() {
    let world = world();
    let good = world.worker("general");
    let key = good
        .user_data
        .lines()
        .find_map(|l| l.trim().strip_prefix("KAWS_BUNDLE="))
        .unwrap()
        .to_owned();
    let bundle = world.object(&key).unwrap();

    // Other bytes than the launch template says.
    let other = world.object(&key.replace("pool-general", "pool-batch"));
    let wrong = other.unwrap_or_else(|| {
        let mut changed = bundle.clone();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        changed
    });
    world.put_object(&key, &wrong);
    let report = fails(&world, good.clone());
    assert_eq!(report["phase"], "bundle", "{report}");

    world.delete_object(&key);
    let report = fails(&world, good.clone());
    assert!(report["message"].as_str().unwrap().contains(&key), "{report}");
    world.put_object(&key, &bundle);

    // A secret that is not there cannot be told from one that may not be read.
    world.delete_object("secrets/probe/token");
    let report = fails(&world, good.clone());
    assert_eq!(report["phase"], "secrets", "{report}");
    let said = report["message"].as_str().unwrap();
    assert!(
        said.contains("/etc/probe/config: the secret probe/token cannot be read")
            && said.contains("403"),
        "{report}"
    );
    world.set_secret("probe/token", TOKEN);

    // A download that is not what was locked.
    let mut told = world.told_internet();
    let before = told.clone();
    told["wrong"] = json!(["/1.0.0/tool-linux-amd64"]);
    world.tell_internet(&told);
    let report = fails(&world, good.clone());
    assert_eq!(report["phase"], "assets", "{report}");
    assert!(
        report["message"].as_str().unwrap().contains("another hash than kaws.lock says"),
        "{report}"
    );
    world.tell_internet(&before);

    // A service that does not come up: what it said last is in the report.
    let report = fails(
        &world,
        without(&world, "command: '/bin/sh -c \"echo cannot reach the collector; exit 3\"'"),
    );
    assert_eq!(report["unit"], "probe.service", "{report}");
    assert!(report["message"].as_str().unwrap().starts_with("probe.service is "), "{report}");
    assert!(report["log"].to_string().contains("cannot reach the collector"), "{report}");

    // One that never says that it is ready.
    let report = fails(&world, without(&world, "type: notify"));
    assert_eq!(report["message"], "probe.service is activating", "{report}");
    assert_eq!(report["phase"], "health", "{report}");
}

/// Deploys the cluster with another setting of the probe; returns a worker that waits half a minute for it.
fn without(world: &World, setting: &str) -> Seat {
    let path = world.folder().join("cluster.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let line = text.lines().find(|l| l.starts_with("  probe: ")).unwrap();
    let with = format!(
        "  probe: {{enabled: true, settings: {{{setting}}}, nodePools: [general], roles: [controller]}}"
    );
    std::fs::write(&path, text.replace(line, &with)).unwrap();
    world.kaws(&["up", "--yes", "--render"]);
    let mut seat = world.worker("general");
    seat.environment.insert("KAWS_TIMEOUT".to_owned(), "30".to_owned());
    seat
}

#[test]
fn five_members_of_etcd_form_a_cluster() {
    let world =
        World::of(&root().join("examples/ha/cluster.yaml"), &[("members: 3", "members: 5")], "");
    world.up();
    let members: Vec<Machine> = (0..5).map(|member| etcd(&world, member)).collect();
    assert_eq!(healthy(&members[0]), 5);
    nothing_was_denied(&world);
}

/// Replaces the members one after the other, as CloudFormation does.
fn rolled(world: &World, members: &mut [Option<Machine>]) {
    for (index, member) in members.iter_mut().enumerate() {
        if let Some(old) = member.take() {
            old.stop();
        }
        world.ask("DELETE", "/mock/signals", &Value::Null);
        *member = Some(etcd(world, u32::try_from(index).unwrap()));
    }
}

fn first(members: &[Option<Machine>]) -> &Machine {
    members[0].as_ref().unwrap()
}

#[test]
fn a_snapshot_restores_and_certificates_rotate() {
    let world = World::of(&root().join("examples/ha/cluster.yaml"), &[], "");
    world.up();
    let mut members: Vec<Option<Machine>> = vec![None, None, None];
    rolled(&world, &mut members);

    etcdctl(first(&members), &["put", "/kept", "before"]);
    for member in members.iter().flatten() {
        let sent = member.run(&["systemctl", "start", "kaws-etcd-backup.service"]);
        assert!(sent.status.success(), "{}", member.journal());
    }
    let backups = world.kaws(&["etcd", "backups"]);
    assert_eq!(backups.lines().count(), 1, "the leader alone sends one:\n{backups}");
    etcdctl(first(&members), &["put", "/lost", "after"]);

    world.kaws(&["etcd", "restore", backups.trim().rsplit('/').next().unwrap()]);
    world.kaws(&["up", "--yes", "--render"]);
    rolled(&world, &mut members);
    assert_eq!(healthy(first(&members)), 3);
    assert!(etcdctl(first(&members), &["get", "/kept"]).contains("before"));
    assert!(!etcdctl(first(&members), &["get", "/lost"]).contains("after"));

    let serial = |machine: &Machine, file: &str| {
        machine.fine(&["openssl", "x509", "-noout", "-serial", "-in", file])
    };
    let before = serial(first(&members), "/etc/kaws/etcd/server.crt");
    world.kaws(&["pki", "rotate", "leaves"]);
    world.kaws(&["up", "--yes", "--render"]);
    rolled(&world, &mut members);
    assert_eq!(healthy(first(&members)), 3);
    assert_ne!(serial(first(&members), "/etc/kaws/etcd/server.crt"), before);

    // An authority in three steps: at each, members of both sides meet.
    let authorities = |machine: &Machine| {
        machine.read("/etc/kaws/etcd/ca.crt").matches("BEGIN CERTIFICATE").count()
    };
    for (step, count) in [(1, 2), (2, 2), (3, 1)] {
        let said = world.kaws(&["pki", "rotate", "etcd-ca"]);
        assert!(said.contains(&format!("step {step} of 3")), "{said}");
        world.kaws(&["up", "--yes", "--render"]);
        rolled(&world, &mut members);
        assert_eq!(healthy(first(&members)), 3, "step {step}");
        assert_eq!(authorities(first(&members)), count, "step {step}");
    }
    assert!(etcdctl(first(&members), &["get", "/kept"]).contains("before"));
    let status = world.kaws(&["pki", "status"]);
    assert!(status.contains("etcd-ca                      2, signs"), "{status}");
}

/// Each certificate is good for what was asked for, and for nothing else.
#[test]
fn certificates_are_what_was_asked_for() {
    let world = World::of(&root().join("examples/ha/cluster.yaml"), &[], "");
    world.up();
    let text = std::fs::read_to_string(world.folder().join("rendered/manifest.yaml")).unwrap();
    let manifest: Value = serde_yaml::from_str(&text).unwrap();
    let dir = world.dir.path();
    let mut count = 0;
    for (name, request) in manifest["pki"]["certificates"].as_object().unwrap() {
        let role = request["roles"][0].as_str().unwrap();
        let version = request["version"].as_str().unwrap();
        let authority = request["authority"].as_str().unwrap();
        let object = |name: &str| world.object(name).unwrap_or_else(|| panic!("{name} is missing"));
        std::fs::write(dir.join("it.crt"), object(&format!("pki/{role}/{name}.{version}.crt")))
            .unwrap();
        std::fs::write(dir.join("it.key"), object(&format!("pki/{role}/{name}.{version}.key")))
            .unwrap();
        let ca = ["controller", "etcd"]
            .into_iter()
            .find_map(|role| world.object(&format!("pki/{role}/{authority}.1.crt")));
        std::fs::write(dir.join("ca.crt"), ca.unwrap()).unwrap();
        let verifies = |more: &[&str]| {
            let words = ["verify", "-x509_strict", "-CAfile", "ca.crt"];
            crate::program("openssl", &[&words[..], more, &["it.crt"]].concat(), dir)
        };
        let usages: Vec<&str> =
            request["usages"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for (usage, purpose) in [("server", "sslserver"), ("client", "sslclient")] {
            let output = verifies(&["-purpose", purpose]);
            assert_eq!(
                output.status.success(),
                usages.contains(&usage),
                "{name} {purpose}\n{}",
                shown(&output)
            );
        }
        for san in request["sans"].as_array().unwrap().iter().filter_map(Value::as_str) {
            let kind = if san.parse::<std::net::IpAddr>().is_ok() {
                "-verify_ip"
            } else {
                "-verify_hostname"
            };
            let output = verifies(&[kind, san]);
            assert!(output.status.success(), "{name} {san}\n{}", shown(&output));
            count += 1;
        }
        assert!(!verifies(&["-verify_hostname", "other.example"]).status.success(), "{name}");
        // The key is its own.
        let key = crate::program("openssl", &["pkey", "-in", "it.key", "-pubout"], dir);
        let of = crate::program("openssl", &["x509", "-in", "it.crt", "-noout", "-pubkey"], dir);
        assert_eq!(key.stdout, of.stdout, "{name}");
    }
    assert!(count > 15, "{count}");
}
