//! `kaws up` and what belongs to it, as a user runs it, on the local cloud.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Cluster, Output, kaws_with_input};

const UP: [&str; 4] = ["up", "--cloud", "local", "--yes"];

fn up(cluster: &Cluster, more: &[&str]) -> Output {
    cluster.kaws(&[&UP, more].concat())
}

fn fine(output: &Output) -> &Output {
    assert_eq!(output.code, 0, "{}\n{}", output.out, output.err);
    output
}

/// Every file of the local cloud, by path.
fn cloud(cluster: &Cluster) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &Path, all: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, all);
            } else {
                all.insert(path.display().to_string(), std::fs::read(&path).unwrap());
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(&cluster.path().join(".kaws"), &mut all);
    all
}

fn edit(cluster: &Cluster, from: &str, to: &str) {
    let path = cluster.path().join("cluster.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_second_run_says_no_changes_and_writes_nothing() {
    let cluster = Cluster::small("");
    let first = up(&cluster, &[]);
    assert!(fine(&first).out.contains("small is up on the local cloud: 7 stacks complete"));
    let before = cloud(&cluster);
    let second = up(&cluster, &[]);
    assert_eq!(fine(&second).out, "small (local cloud): no changes.\n");
    assert_eq!(cloud(&cluster), before);
}

#[test]
fn after_a_failure_siblings_finish_and_the_next_run_does_what_is_left() {
    let cluster = Cluster::small("");
    let failed = up(&cluster, &["--fail", "etcd/Etcd1Data=Insufficient capacity"]);
    assert_eq!(failed.code, 4);
    let first = failed.err.lines().next().unwrap();
    assert_eq!(first, "error[deploy/stack-failed]: etcd: Etcd1Data could not be created");
    assert!(failed.err.contains("Insufficient capacity"), "{}", failed.err);
    assert!(failed.out.contains("✔ iam") && failed.out.contains("✘ etcd"), "{}", failed.out);
    assert!(failed.out.contains("○ control-plane   not run"), "{}", failed.out);
    let again = up(&cluster, &[]);
    assert!(!fine(&again).out.contains("✔ network"), "{}", again.out);
    for stack in ["etcd", "control-plane", "pool-general", "pool-other"] {
        assert!(again.out.contains(&format!("✔ {stack}")), "{stack}: {}", again.out);
    }
    assert!(up(&cluster, &[]).out.contains("no changes"));
}

#[test]
fn a_failed_change_goes_back_and_the_next_run_does_it() {
    let cluster = Cluster::small("");
    fine(&up(&cluster, &[]));
    edit(&cluster, "instanceTypes: [m7i.xlarge]", "instanceTypes: [m7i.2xlarge]");
    let failed =
        up(&cluster, &["--render", "--fail", "pool-other/Group=1 FAILURE signal out of 1"]);
    assert_eq!(failed.code, 4);
    assert!(failed.err.contains("UPDATE_ROLLBACK_COMPLETE"), "{}", failed.err);
    let again = up(&cluster, &[]);
    assert!(fine(&again).out.contains("✔ pool-other"), "{}", again.out);
    assert!(up(&cluster, &[]).out.contains("no changes"));
}

#[test]
fn only_the_stack_of_the_changed_pool_is_touched() {
    let cluster = Cluster::small("");
    fine(&up(&cluster, &[]));
    let before = cloud(&cluster);
    edit(&cluster, "instanceTypes: [m7i.xlarge]", "instanceTypes: [m7i.2xlarge]");
    fine(&up(&cluster, &["--render"]));
    let after = cloud(&cluster);
    let touched: Vec<&str> = after
        .iter()
        .filter(|(path, bytes)| path.contains("/stacks/") && before.get(*path) != Some(bytes))
        .map(|(path, _)| path.rsplit('/').next().unwrap())
        .collect();
    // A template that was uploaded has `stacks/` in its key, too.
    let stacks: Vec<&&str> = touched.iter().filter(|name| name.ends_with(".json")).collect();
    assert_eq!(stacks, [&"small-pool-other.json"]);
}

#[test]
fn a_stale_tree_is_refused() {
    let cluster = Cluster::small("");
    fine(&cluster.kaws(&["render"]));
    edit(&cluster, "instanceTypes: [m7i.xlarge]", "instanceTypes: [m7i.2xlarge]");
    let refused = up(&cluster, &[]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("deploy/stale"), "{}", refused.err);
    assert!(!cluster.path().join(".kaws/local/stacks").exists());
    // Somebody's hand in the tree is as stale.
    fine(&cluster.kaws(&["render"]));
    let path = cluster.path().join("rendered/stacks/state.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, text.replace("Enabled", "Suspended")).unwrap();
    assert!(up(&cluster, &[]).err.contains("deploy/stale"));
    fine(&up(&cluster, &["--render"]));
}

#[test]
fn a_saved_plan_is_done_exactly_or_refused() {
    let cluster = Cluster::small("");
    let plan = ["plan", "--cloud", "local", "--save", "plan.json"];
    fine(&cluster.kaws(&plan));
    fine(&cluster.kaws(&["render"]));
    fine(&cluster.kaws(&["up", "--cloud", "local", "--plan", "plan.json"]));
    // The same plan no longer holds: everything is there.
    edit(&cluster, "instanceTypes: [m7i.xlarge]", "instanceTypes: [m7i.2xlarge]");
    fine(&cluster.kaws(&["render"]));
    let refused = cluster.kaws(&["up", "--cloud", "local", "--plan", "plan.json"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("deploy/other-plan"), "{}", refused.err);
    fine(&cluster.kaws(&plan));
    let done = cluster.kaws(&["up", "--cloud", "local", "--plan", "plan.json"]);
    assert!(fine(&done).out.contains("✔ pool-other"), "{}", done.out);
}

#[test]
fn nobody_to_ask_changes_nothing() {
    let cluster = Cluster::small("");
    let refused = cluster.kaws(&["up", "--cloud", "local"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("kaws up --yes"), "{}", refused.err);
    assert!(!cluster.path().join(".kaws/local/stacks").exists());
}

#[test]
fn a_plan_says_with_its_exit_code_whether_there_is_something_to_do() {
    let cluster = Cluster::small("");
    let plan = ["plan", "--cloud", "local", "--exit-code"];
    assert_eq!(cluster.kaws(&plan).code, 2);
    fine(&up(&cluster, &[]));
    assert_eq!(cluster.kaws(&plan).code, 0);
}

#[test]
fn a_plan_against_another_tree_needs_no_cloud() {
    let cluster = Cluster::small("");
    fine(&cluster.kaws(&["render", "--out", "base"]));
    edit(&cluster, "instanceTypes: [m7i.xlarge]", "instanceTypes: [m7i.2xlarge]");
    let plan = cluster.kaws(&["plan", "--base", "base"]);
    assert!(fine(&plan).out.contains("rolls all nodes, 1 or more, one at a time"), "{}", plan.out);
    assert!(plan.out.contains("Nothing to do in network, state, etcd"), "{}", plan.out);
    assert!(!cluster.path().join(".kaws").exists());
    let same = cluster.kaws(&["render", "--out", "base"]);
    fine(&same);
    assert!(cluster.kaws(&["plan", "--base", "base"]).out.contains("No changes."));
}

#[test]
fn a_pool_that_is_gone_stays_until_it_is_named() {
    let cluster = Cluster::small("");
    fine(&up(&cluster, &[]));
    edit(&cluster, "  other: {instanceTypes: [m7i.xlarge]}\n", "");
    let without = up(&cluster, &["--render"]);
    assert!(
        fine(&without).out.contains("pool-other      no longer rendered")
            || without.out.contains("small is up"),
        "{}",
        without.out
    );
    let stack = cluster.path().join(".kaws/local/stacks/small-pool-other.json");
    let status = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["status"].clone()
    };
    assert_eq!(status(&stack), "CREATE_COMPLETE");
    let wrong = up(&cluster, &["--remove", "network"]);
    assert!(wrong.err.contains("deploy/nothing-to-remove"), "{}", wrong.err);
    fine(&up(&cluster, &["--remove", "pool-other"]));
    assert_eq!(status(&stack), "DELETE_COMPLETE");
    assert!(up(&cluster, &[]).out.contains("no changes"));
}

#[test]
fn what_holds_data_goes_only_when_it_is_named() {
    let cluster = Cluster::small("plugins: {store: {}}\n");
    let table = "  stacks:\n    store:\n      resources:\n        Table:\n          Type: AWS::DynamoDB::Table\n          Properties: {TableName: NAME, BillingMode: PAY_PER_REQUEST, AttributeDefinitions: [{AttributeName: id, AttributeType: S}], KeySchema: [{AttributeName: id, KeyType: HASH}]}\n";
    let plugin = |name: &str| format!("initialise:\n{}", table.replace("NAME", name));
    cluster.plugin("store", &plugin("one"));
    fine(&up(&cluster, &[]));
    cluster.plugin("store", &plugin("two"));
    let refused = up(&cluster, &["--render"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("--allow-data-loss store/Table"), "{}", refused.err);
    fine(&up(&cluster, &["--allow-data-loss", "store/Table"]));
}

#[test]
fn destroying_keeps_data_key_and_state_unless_named() {
    let cluster = Cluster::small("");
    fine(&up(&cluster, &[]));
    let plan = cluster.kaws(&["destroy", "--cloud", "local", "--plan"]);
    assert!(fine(&plan).out.contains("state/Bucket"), "{}", plan.out);
    fine(&cluster.kaws(&["destroy", "--cloud", "local", "--yes"]));
    let left = cluster.kaws(&["destroy", "--cloud", "local", "--plan"]);
    assert!(left.out.contains("Nothing of it is deployed but what is kept."), "{}", left.out);
    assert!(
        cluster.path().join(".kaws/local/buckets/kaws-111122223333-eu-west-1-small/owner").exists()
    );
    // And it comes up again.
    fine(&up(&cluster, &[]));
    fine(&cluster.kaws(&["destroy", "--cloud", "local", "--yes", "--allow-data-loss", "state"]));
    let buckets =
        cluster.path().join(".kaws/local/buckets/kaws-111122223333-eu-west-1-small/owner");
    assert!(!buckets.exists());
    fine(&up(&cluster, &[]));
}

#[test]
fn a_deployment_stops_before_the_first_machine_when_a_secret_is_missing() {
    let cluster = Cluster::small("plugins: {agent: {}}\n");
    cluster.plugin(
        "agent",
        "nodes: [worker]\nsecrets:\n  token: {description: T.}\ninitialise:\n  machines:\n    nodes:\n      files:\n        /etc/agent: {content: 'x={{secret \"token\"}}', mode: \"0600\"}\n",
    );
    let stopped = up(&cluster, &[]);
    assert_eq!(stopped.code, 1);
    assert!(stopped.err.contains("kaws secret set agent/token"), "{}", stopped.err);
    assert!(stopped.out.contains("✔ network"), "{}", stopped.out);
    assert!(stopped.out.contains("○ etcd            not run"), "{}", stopped.out);
    let listed = cluster.kaws(&["secret", "list", "--cloud", "local"]);
    assert!(fine(&listed).out.contains("not set"), "{}", listed.out);
    let set = ["secret", "set", "agent/token", "--cloud", "local"];
    let said = kaws_with_input(cluster.path(), &set, "canary-6f1d\n");
    fine(&said);
    fine(&up(&cluster, &[]));
    // The value is in its object, encrypted, and nowhere else.
    for output in
        [&said, &up(&cluster, &[]), &cluster.kaws(&["secret", "list", "--cloud", "local"])]
    {
        assert!(!output.out.contains("canary") && !output.err.contains("canary"));
    }
    let holding: Vec<String> = cloud(&cluster)
        .into_iter()
        .filter(|(_, bytes)| bytes.windows(6).any(|w| w == b"canary"))
        .map(|(path, _)| path.rsplit('/').next().unwrap().to_owned())
        .collect();
    assert!(holding.is_empty(), "{holding:?}");
    assert!(cloud(&cluster).keys().any(|path| path.ends_with("/secrets%2Fagent%2Ftoken")));
    fine(&cluster.kaws(&["secret", "remove", "agent/token", "--cloud", "local"]));
    let wrong =
        kaws_with_input(cluster.path(), &["secret", "set", "agent/tokn", "--cloud", "local"], "x");
    assert!(wrong.err.contains("did you mean agent/token?"), "{}", wrong.err);
}

#[test]
fn the_local_cloud_locks_images_and_says_that_they_are_its_own() {
    let cluster = Cluster::small("");
    let locked = cluster.kaws(&["lock", "--cloud", "local"]);
    // Charts cannot be asked for without a network, and that is said.
    assert!(locked.out.contains("image/ubuntu-24.04/amd64"), "{}\n{}", locked.out, locked.err);
    let text = std::fs::read_to_string(cluster.path().join("kaws.lock")).unwrap();
    assert!(text.contains("from: local:/aws/service/canonical/"), "{text}");
    fine(&up(&cluster, &[]));
}

#[test]
fn only_one_command_of_a_folder_moves_a_stack_on() {
    let cluster = Cluster::small("");
    fine(&cluster.kaws(&["render"]));
    let both: Vec<Output> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| up(&cluster, &[]))).collect();
        runs.into_iter().map(|r| r.join().unwrap()).collect()
    });
    // One may have been refused by the lock, or have waited and found nothing to do; none half does it.
    assert!(both.iter().any(|o| o.code == 0), "{}\n{}", both[0].err, both[1].err);
    assert!(up(&cluster, &[]).out.contains("no changes"));
}

#[test]
fn what_others_still_use_is_dropped_in_a_second_step() {
    let cluster = Cluster::small("");
    fine(&up(&cluster, &[]));
    // A zone goes: the network's subnet is in use by every pool until that pool has changed.
    edit(&cluster, "[eu-west-1a, eu-west-1b, eu-west-1c]", "[eu-west-1a, eu-west-1b]");
    edit(&cluster, "nodePools:", "etcd: {members: 1}\nnodePools:");
    let plan = cluster.kaws(&["plan", "--cloud", "local"]);
    assert!(fine(&plan).out.contains("in two steps: what goes is removed after"), "{}", plan.out);
    let done = up(&cluster, &["--render", "--allow-data-loss", "etcd"]);
    fine(&done);
    let at = |text: &str| done.out.find(text).unwrap_or_else(|| panic!("no {text}: {}", done.out));
    assert!(at("✔ network") < at("✔ pool-general"));
    assert!(at("✔ pool-general") < at("✔ drop network"));
    assert!(done.out[at("✔ pool-general")..].contains("SubnetPrivateC  DELETE_COMPLETE"));
    assert!(up(&cluster, &[]).out.contains("no changes"));
}

#[test]
fn a_stack_that_stays_unrendered_keeps_others_from_dropping_what_it_uses() {
    let cluster = Cluster::small("");
    fine(&up(&cluster, &[]));
    edit(&cluster, "  other: {instanceTypes: [m7i.xlarge]}\n", "");
    edit(&cluster, "[eu-west-1a, eu-west-1b, eu-west-1c]", "[eu-west-1a, eu-west-1b]");
    edit(&cluster, "nodePools:", "etcd: {members: 1}\nnodePools:");
    let refused = up(&cluster, &["--render", "--allow-data-loss", "etcd"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("deploy/still-used"), "{}", refused.err);
    assert!(refused.err.contains("--remove pool-other"), "{}", refused.err);
    fine(&up(&cluster, &["--allow-data-loss", "etcd", "--remove", "pool-other"]));
}

#[test]
fn a_stack_that_is_half_there_is_no_ground_to_build_on() {
    let cluster = Cluster::small("");
    fine(&up(&cluster, &[]));
    let path = cluster.path().join(".kaws/local/stacks/small-network.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let broken =
        text.replacen("\"status\": \"CREATE_COMPLETE\"", "\"status\": \"DELETE_FAILED\"", 1);
    assert_ne!(text, broken);
    std::fs::write(&path, broken).unwrap();
    for command in [&["plan", "--cloud", "local"][..], &UP] {
        let refused = cluster.kaws(command);
        assert_eq!(refused.code, 1, "{}", refused.out);
        assert!(refused.err.contains("fatal[deploy/stack-state]"), "{}", refused.err);
    }
    // Destroying is what can be done with it.
    fine(&cluster.kaws(&["destroy", "--cloud", "local", "--yes"]));
}

#[test]
fn destroying_asks_by_name_for_data_that_no_policy_keeps() {
    let cluster = Cluster::small("plugins: {mail: {}}\n");
    cluster.plugin(
        "mail",
        "initialise:\n  stacks:\n    mail:\n      resources:\n        Queue: {Type: 'AWS::SQS::Queue', Properties: {SqsManagedSseEnabled: true}}\n",
    );
    fine(&up(&cluster, &[]));
    let refused = cluster.kaws(&["destroy", "--cloud", "local", "--yes"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("--allow-data-loss mail/Queue"), "{}", refused.err);
    let named = ["destroy", "--cloud", "local", "--yes", "--allow-data-loss", "mail"];
    let done = cluster.kaws(&named);
    assert!(fine(&done).out.contains("6 things are kept."), "{}", done.out);
    // What was deployed is forgotten with it.
    assert!(
        cluster.kaws(&["plan", "--cloud", "local"]).out.contains("no deployment was ever complete")
    );
}

#[test]
fn a_fault_that_is_nowhere_is_a_mistake() {
    let cluster = Cluster::small("");
    let wrong = up(&cluster, &["--fail", "netwrk/Vpc"]);
    assert_eq!(wrong.code, 64);
    assert!(wrong.err.contains("no stack has that"), "{}", wrong.err);
}

#[test]
fn an_authority_rotates_in_three_steps_and_comments_stay() {
    let cluster = Cluster::small("pki:\n  # raised every spring\n  leaves: 3 # by ana\n");
    let text = || std::fs::read_to_string(cluster.path().join("cluster.yaml")).unwrap();
    let rotate = |what: &str| {
        let output = cluster.kaws(&["pki", "rotate", what]);
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        output.out
    };
    assert!(rotate("leaves").contains("pki.leaves is now 4"));
    assert!(text().contains("  # raised every spring\n  leaves: 4 # by ana\n"), "{}", text());
    assert!(rotate("etcd-ca").contains("step 1 of 3"));
    assert!(text().contains("authorities: {etcd-ca: {"), "{}", text());
    assert!(rotate("etcd-ca").contains("step 2 of 3"));
    assert!(text().contains("signs: 2") && text().contains("leaves: 5 # by ana"), "{}", text());
    assert!(rotate("etcd-ca").contains("step 3 of 3"));
    assert!(text().contains("trusted: [2]"), "{}", text());
    let output = cluster.kaws(&["pki", "rotate", "etcd-cas"]);
    assert_eq!(output.code, 64);
    assert!(output.err.contains("did you mean etcd-ca?"), "{}", output.err);
}

#[test]
fn a_minor_of_kubernetes_is_not_left_out() {
    let cluster = Cluster::small("kubernetesVersion: 1.34.10\n");
    fine(&up(&cluster, &[]));
    edit(&cluster, "1.34.10", "1.36.3");
    let refused = up(&cluster, &["--render"]);
    assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
    assert!(
        refused.err.contains("fatal[deploy/skips-minor]: Kubernetes goes from 1.34.10 to 1.36.3"),
        "{}",
        refused.err
    );
    edit(&cluster, "1.36.3", "1.35.4");
    fine(&up(&cluster, &["--render"]));
}

#[test]
fn several_clusters_end_in_one_summary_and_one_code() {
    let cluster = Cluster::small("");
    let text = std::fs::read_to_string(cluster.path().join("cluster.yaml")).unwrap();
    cluster.file("a/cluster.yaml", text.replace("name: small", "name: first"));
    cluster.file("b/cluster.yaml", text.replace("network:", "nettwork:"));
    cluster.file("c/cluster.yaml", text.replace("name: small", "name: third"));
    let files = ["-f", "a/cluster.yaml", "-f", "b/cluster.yaml", "-f", "c/cluster.yaml"];
    let done = up(&cluster, &files);
    assert_eq!(done.code, 1, "{}", done.err);
    let summary = "3 clusters: 2 done, 1 not\n  b/cluster.yaml  exit 1\n";
    assert!(done.out.ends_with(summary), "{}", done.out);
    for name in ["first", "third"] {
        assert!(done.out.contains(&format!("{name} is up on the local cloud")), "{}", done.out);
    }
    let plan = [&["plan", "--cloud", "local", "--exit-code", "--output", "json"], &files[..]];
    let planned = cluster.kaws(&plan.concat());
    assert_eq!(planned.code, 1);
    let last: serde_json::Value =
        serde_json::from_str(planned.out.lines().last().unwrap()).unwrap();
    let codes: Vec<_> = last["ended"].as_array().unwrap().iter().map(|e| &e["exit"]).collect();
    assert_eq!(codes, [0, 1, 0]);
    // A saved plan is one cluster's.
    let saved = cluster.kaws(&[&["plan", "--save", "p.json"], &files[..]].concat());
    assert_eq!(saved.code, 64);
}
