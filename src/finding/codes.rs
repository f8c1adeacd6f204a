//! The table of all codes: what each means and what to do. `kaws explain CODE` and the reference page
//! print it; a test holds the sources against it.

/// A kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// `area/name`.
    pub code: &'static str,
    /// What it means, in full sentences.
    pub meaning: &'static str,
}

const fn code(code: &'static str, meaning: &'static str) -> Code {
    Code { code, meaning }
}

/// Every code, sorted.
pub const CODES: &[Code] = &[
    code(
        "boot/authority-key",
        "Machines would have the key of an authority. Whoever has it can make any certificate of it: only controllers have that of kubernetes-ca, with which they sign the certificates of nodes.",
    ),
    code(
        "boot/certificate-name",
        "A server's certificate lacks a name or an address under which it is asked for. Put it back among `sans`.",
    ),
    code(
        "boot/certificate-usage",
        "A member of etcd serves and dials with the same certificate, and needs both usages.",
    ),
    code(
        "boot/config-version",
        "A component does not read a configuration file of this version, and does not start.",
    ),
    code(
        "boot/containerd",
        "The kubelet counts what pods use in groups of systemd, and containerd must too.",
    ),
    code(
        "boot/dns-address",
        "The service of names has another address than kubelets tell pods. Both are the tenth address of network.serviceCIDR.",
    ),
    code(
        "boot/key-of-another-role",
        "A file names a key or certificate that the machine's role may not read. The machine would not come up; add the role to the request, or put the file elsewhere.",
    ),
    code(
        "boot/kubeconfig",
        "Who trusts the cluster's authority must ask for the API server under a name or an address that its certificate has.",
    ),
    code(
        "boot/kubelet",
        "A setting of the kubelet keeps it from working with the rest of the cluster.",
    ),
    code(
        "boot/lifecycle-hook",
        "A lifecycle hook holds each machine until somebody completes it, or its time is over. Say who completes it in the resource's Metadata, or leave the hook out.",
    ),
    code(
        "boot/no-bootstrap",
        "Nodes join with a bootstrap token and the bindings in manifests.bootstrap-rbac. They must be there, in the phase base.",
    ),
    code(
        "boot/no-cloud-controller",
        "Nodes register with a taint that the cloud controller takes away. Without one in the phase cloud, nothing is placed on them.",
    ),
    code(
        "boot/no-credentials",
        "Pods that work on AWS have no rights there: where cluster.yaml names profiles, kaws creates no roles for service accounts, and pods reach their machine's role only if its hop limit lets them.",
    ),
    code(
        "boot/no-pod-network",
        "No release in the phase cni gives pods a network. Nodes become ready once somebody does.",
    ),
    code(
        "boot/no-way-out",
        "Machines download programs and images. Without a NAT gateway they need a mirror that they reach, or a way out that your VPC has.",
    ),
    code(
        "boot/node-label",
        "A kubelet does not start with a label in Kubernetes' own domains, but for a few. Use a prefix of your own; roles of nodes are given by controllers.",
    ),
    code(
        "boot/port",
        "A component would listen on another port than it is asked on: load balancers, health checks and kubeconfigs name the usual one.",
    ),
    code(
        "boot/security-group",
        "The cloud controller finds a machine's security group by the cluster's tag, and refuses machines that have several such groups, or none.",
    ),
    code(
        "boot/setting",
        "A component does not read a setting of its configuration: it knows none of this name, or its value is of another kind. kubelet and kube-proxy leave it out and only warn, kube-apiserver does not start.",
    ),
    code(
        "boot/signals",
        "CloudFormation waits for a signal of each machine. It must wait for as many as there are machines, long enough, and when it rolls them too.",
    ),
    code(
        "boot/subnet-tags",
        "The cloud controller finds the subnets of load balancers by their tags. One without is not used.",
    ),
    code(
        "boot/target-group",
        "Load balancers ask the API server for its health, without a name, on the port that it listens on. What they ask must fit.",
    ),
    code("boot/unit", "systemd refuses the unit, or leaves a line of it out."),
    code(
        "boot/unknown-authority",
        "A certificate is to be signed by an authority that no plugin has.",
    ),
    code(
        "boot/unknown-key",
        "A file names a certificate or key that nobody asks for. Write its request under pki.",
    ),
    code(
        "boot/way-in",
        "Load balancers and pods of workers must reach the API server's port on controllers: the service `kubernetes` leads to controllers themselves.",
    ),
    code(
        "config/account-role",
        "An existing role is used, so kaws attaches no policy to it. The statements the cluster needs are written to rendered/iam/; attach them, then silence this with `accept:`.",
    ),
    code(
        "config/apiserver-open",
        "The API server answers to the whole internet. Name your networks in api.allowedCIDRs.",
    ),
    code(
        "config/architecture",
        "The instance types of one group have different processors. One launch template starts one image; give each architecture a pool of its own.",
    ),
    code(
        "config/clash",
        "A plugin's settings stand in cluster.yaml and in config/<plugin>.yaml. Keep one of the two.",
    ),
    code(
        "config/dual-stack",
        "Dual stack is not built yet. Leave network.ipFamily out, or write ipv4.",
    ),
    code(
        "config/etcd-zones",
        "Fewer zones than three: etcd loses its majority when the zone with most members fails.",
    ),
    code("config/even-etcd", "etcd needs a majority: one, three or five members."),
    code(
        "config/extends",
        "The file that `extends:` names cannot be used: it is missing, or extends itself.",
    ),
    code(
        "config/file",
        "A file that a setting names cannot be read, or lies outside the cluster's folder.",
    ),
    code(
        "config/image",
        "The operating system publishes no parameter for its images. Write the image's id; it is one region's.",
    ),
    code(
        "config/internet-facing",
        "An API that only answers from the internet is reached by nodes through NAT gateways, whose addresses kaws must know: it needs NAT gateways of its own.",
    ),
    code(
        "config/kubernetes-version",
        "kaws renders Kubernetes 1.34 to 1.37. Newer minors may have removed flags that are still set here.",
    ),
    code(
        "config/name-length",
        "A name that is made of the cluster's becomes longer than AWS allows.",
    ),
    code("config/needs", "A setting is missing that another one asks for."),
    code(
        "config/one-controller",
        "A single controller or etcd member: the cluster stops when its machine does.",
    ),
    code("config/partition", "The region lies in another partition of AWS than the one written."),
    code(
        "config/plain-secret",
        "A value stands under a key that looks secret. Rendered files are for git: write {$secret: NAME}, or name its path under `accept:` with a reason.",
    ),
    code("config/pool-size", "A pool's smallest size is larger than its largest."),
    code("config/stale-accept", "An entry of `accept:` silences nothing."),
    code("config/timeout", "CloudFormation waits at most an hour for a replaced machine."),
    code(
        "config/zone",
        "A zone is not in the region, is named twice, or is not among the cluster's zones.",
    ),
    code(
        "deploy/account",
        "The credentials are for another account than the cluster's: kaws touches no other.",
    ),
    code(
        "deploy/data-at-risk",
        "Something that holds data would be replaced or removed, and nobody said that it may.",
    ),
    code("deploy/held", "Somebody else is deploying the cluster, or was and is gone."),
    code(
        "deploy/invalid-template",
        "CloudFormation's early validation refuses a template before anything is made of it.",
    ),
    code(
        "deploy/leftovers",
        "The cluster made things outside its stacks, which would keep the network from going.",
    ),
    code(
        "deploy/lost-lock",
        "Somebody else took the lock while this went on, so nothing new was begun.",
    ),
    code(
        "deploy/more-than-plan",
        "CloudFormation's change set holds more than the plan that was confirmed.",
    ),
    code("deploy/no-secret", "A secret that machines read when they start has not been set."),
    code(
        "deploy/no-value",
        "A stack's parameter has no value: an output that is not there, or an entry of kaws.lock.",
    ),
    code(
        "deploy/node-failed",
        "A new machine did not come up: what it reported, and which setting or plugin that counts for.",
    ),
    code(
        "deploy/nothing-to-leave",
        "A resource is to be left as it is with --leave, and it keeps no stack from being rolled back or deleted.",
    ),
    code(
        "deploy/nothing-to-remove",
        "A stack that is to be removed is not deployed, or still rendered.",
    ),
    code("deploy/other-plan", "A saved plan is no longer what would be done."),
    code(
        "deploy/overtaken",
        "Somebody else deployed between the plan and the lock: the plan no longer holds.",
    ),
    code(
        "deploy/region",
        "The environment or the profile is for another region than the cluster's.",
    ),
    code(
        "deploy/skips-minor",
        "Components of Kubernetes work with those of one minor before, and no older. Upgrade one minor after the other; there is no way back.",
    ),
    code(
        "deploy/stack-failed",
        "A stack did not become what it should. The resource that failed first comes first, with its reason.",
    ),
    code(
        "deploy/stack-state",
        "A stack is in a state that no change set can start from, such as UPDATE_ROLLBACK_FAILED; kaws up gets it out of there first.",
    ),
    code(
        "deploy/stale",
        "rendered/ is not what the cluster renders to, and what is deployed is what was reviewed there.",
    ),
    code("deploy/step-order", "Steps of plugins and stacks wait for each other."),
    code(
        "deploy/still-used",
        "A stack drops an output that another stack, as it is deployed, still uses.",
    ),
    code(
        "deploy/unsupported",
        "CloudFormation refuses to change a property of a resource that is there.",
    ),
    code(
        "exec/failed",
        "A plugin's program ended with another exit code than 0, or was killed. What it said last stands below the finding.",
    ),
    code(
        "exec/leak",
        "What a plugin's program said holds the value of a secret that it was told, as it is or encoded. Nothing of it is used.",
    ),
    code("exec/left", "A plugin's program ended and left processes running. kaws ended them."),
    code(
        "exec/limit",
        "A plugin's program took too long, said too much, or had too many processes. The limits stand in its manifest.",
    ),
    code(
        "exec/response",
        "What a plugin's program answered is no response: `kaws plugin schema response` has the form.",
    ),
    code(
        "exec/sandbox",
        "This machine lacks a part of the sandbox for plugins' programs: they can reach more than they were granted.",
    ),
    code(
        "exec/start",
        "A plugin's program cannot be started: it is not there, not for this machine, or needs another one.",
    ),
    code(
        "flags/admission",
        "The API server does not start with an admission plugin that it does not know, or that is turned on and off.",
    ),
    code(
        "flags/alpha-gate",
        "An alpha feature may change or go with any release, and is off by default for that reason.",
    ),
    code(
        "flags/combination",
        "These flags exclude each other or need each other: the component refuses to start.",
    ),
    code(
        "flags/deprecated",
        "The component still takes the flag, and will not for ever. The note says what it says itself.",
    ),
    code("flags/disagree", "Two components must have the same value and have different ones."),
    code(
        "flags/encryption",
        "kube-apiserver refuses a rule of encryption: it would hide another, names no resource, or its key has the wrong length.",
    ),
    code(
        "flags/gate",
        "The component does not start with a feature gate that it does not know, or with one that is locked to another value.",
    ),
    code("flags/inert", "The flag does nothing without another one."),
    code("flags/later", "This minor of Kubernetes does not have the flag yet."),
    code("flags/removed", "The component no longer has the flag, and does not start with it."),
    code("flags/unknown", "The component never had the flag, and does not start with it."),
    code("flags/value", "The component cannot read the flag's value, and does not start."),
    code(
        "hooks/failed",
        "A hook where kaws runs has failed, and its failure counts. What it said is in the notes; `behavior: sync-bypass` lets it fail.",
    ),
    code(
        "hooks/form",
        "A hook runs nothing or several things, or is for machines that cannot run it.",
    ),
    code(
        "install/archive",
        "The archive a plugin comes in is broken, or does what no archive of a plugin does: it leads out of its folder, holds links or devices, or unpacks to far more than it should. Nothing of it was written.",
    ),
    code(
        "install/changed",
        "What a source gives is not what kaws.lock recorded for the same version. A published version does not change: ask its publisher.",
    ),
    code("install/in-use", "A plugin is to be removed, and cluster.yaml still names it."),
    code(
        "install/manifest",
        "What a release says of itself does not agree: its tag, its archives and its plugin.yaml are of one version and one text.",
    ),
    code(
        "install/new-rights",
        "A newer version of a plugin does what the one before did not, or asks for more rights: it writes elsewhere, runs a program, adds a command. It is not installed before you agree, with --grant.",
    ),
    code(
        "install/signature",
        "A signature is missing where cluster.yaml asks for one, is not by one of its keys, or is of other bytes.",
    ),
    code("install/source", "A plugin cannot be fetched from where it is said to be."),
    code(
        "limits/managed-policies",
        "AWS attaches 10 managed policies to a role by default, 20 on request.",
    ),
    code("limits/outputs", "CloudFormation allows 200 outputs a template."),
    code("limits/parameters", "CloudFormation allows 200 parameters a template."),
    code("limits/policy-size", "A role's inline policies may hold 10,240 characters."),
    code("limits/resources", "CloudFormation allows 500 resources a template."),
    code("limits/security-group-rules", "AWS allows 60 inbound rules a security group by default."),
    code(
        "limits/template-size",
        "A template may hold 1,000,000 bytes in S3, 51,200 when sent inline, as the state stack is.",
    ),
    code("limits/user-data", "EC2 takes 16,384 bytes of user data."),
    code("lint/cases", "A plugin without cases: nobody sees what a change of it changes."),
    code("lint/default", "The default of a setting is none of the values that it may have."),
    code("lint/description", "Lists and help show a plugin's description: a sentence says most."),
    code(
        "lint/program",
        "A plugin's program runs on its author's machine alone: it is for one platform, or does not say what reads it.",
    ),
    code("lint/readme", "A plugin without README.md: its users have to read its manifest."),
    code("lint/undocumented", "A setting without a description, which editors would show."),
    code("lint/unused-file", "A file in a plugin's folder that nothing names."),
    code(
        "lint/wide",
        "A plugin may write in a whole part of the model, and who installs it has to trust it that far.",
    ),
    code(
        "lock/failed",
        "Whoever publishes something did not say which exact one its name and version stand for.",
    ),
    code("lock/local", "An entry of kaws.lock was made up by the local cloud, and is none on AWS."),
    code(
        "lock/newer",
        "kaws.lock was written by a newer kaws. Use that release: an older one could render less than was reviewed.",
    ),
    code(
        "lock/not-granted",
        "A plugin's program asks for rights that nobody has granted it: `kaws lock` asks you.",
    ),
    code(
        "lock/plugin-changed",
        "A plugin is not the one that kaws.lock recorded. Review it, then change its entry.",
    ),
    code(
        "lock/unanswered",
        "A plugin's program needs an answer of the outside, and kaws.lock has none: `kaws lock` asks for it.",
    ),
    code(
        "lock/unresolved",
        "Something fetched from outside has no entry in kaws.lock. Rendering goes on; --locked refuses, and so does everything that speaks to AWS.",
    ),
    code(
        "merge/conflict",
        "Two plugins want different values for one entity. Make them equal, say in `prefer:` whose is right, or patch it under `customise:`.",
    ),
    code(
        "merge/outside-pools",
        "A plugin that is on in some pools only writes to others. Write `nodes` in place of a role.",
    ),
    code(
        "merge/sealed",
        "This part of the model is finished: what comes later would escape the checks.",
    ),
    code(
        "merge/undeclared-write",
        "A plugin contributes outside its manifest's `writes:`. Add the path there, if it should.",
    ),
    code(
        "merge/unused-prefer",
        "An entry of `prefer:` decides nothing: no conflict is there, or the plugin is no party to it.",
    ),
    code("model/dangling-output", "A reference names an output that no stack has."),
    code(
        "model/file-wider-than-secret",
        "A file that holds a secret can be read by others than its owner. Give it mode 0600.",
    ),
    code(
        "model/name",
        "The key of an entity is no name of its kind: a path, a unit, a flag, a logical id.",
    ),
    code(
        "model/parameter-clash",
        "Two references make one parameter's name, or a parameter has the name of a resource. Rename an output, or the resource.",
    ),
    code("model/pin", "A file names a pin that its plugin's manifest does not have."),
    code(
        "model/raw-word",
        "A word of kaws's own stands where CloudFormation would take it literally. Secrets and keys are filled in on nodes, and never in templates.",
    ),
    code(
        "model/render-scope",
        "In render a plugin may add to machines, stacks, manifests and values only: everything else is intent, and belongs to initialise.",
    ),
    code("model/rule", "A security group's rule that AWS would refuse: its ports or its source."),
    code("model/rule-source", "A security group's rule names a group that is not there."),
    code("model/source", "A file, unit or drop-in has exactly one source of its bytes."),
    code(
        "model/stack-cycle",
        "Stacks need each other's outputs in a circle, so none can be first. Use a tag condition or a name pattern in the policy that closes it.",
    ),
    code(
        "model/unfilled",
        "Text that comes from a setting or a file looks like a placeholder that nodes fill in. Data is never expanded.",
    ),
    code(
        "model/unknown-group",
        "The cluster has no such group of machines. Groups are etcd, controller, worker, pool:NAME, and `nodes` for those the plugin is on.",
    ),
    code(
        "network/overlap",
        "Two networks share addresses, so a node could not tell one from the other.",
    ),
    code("network/prefix", "A network has the wrong size for its purpose."),
    code(
        "network/subnets",
        "An existing VPC's subnets do not fit: one private one in each zone, inside the VPC.",
    ),
    code(
        "order/against-file",
        "A plugin asks to come after another one that order.yaml puts later.",
    ),
    code("order/cycle", "Plugins ask to come after each other in a circle."),
    code(
        "order/moves-builtin",
        "A cluster's order.yaml may name built-in plugins as anchors, and never move them.",
    ),
    code("order/unknown-plugin", "order.yaml names a plugin that is not there."),
    code(
        "patch/conflict",
        "Two plugins patch one place differently. A patch under `customise:` beats both.",
    ),
    code(
        "patch/missing",
        "A patch names a place that is not there. Where that is fine, say `ifMissing: skip`.",
    ),
    code(
        "patch/protected",
        "A node's bootstrap and the core PKI can only be patched from cluster.yaml.",
    ),
    code(
        "patch/protected-used",
        "cluster.yaml patches a node's bootstrap or the core PKI. kaws cannot know whether nodes still come up.",
    ),
    code(
        "patch/stale",
        "A patch expected another value than the one that is there. Look at what changed, then at the patch.",
    ),
    code("patch/value", "A patch's operation and its value do not fit the place."),
    code("plugin/case", "A plugin's case cannot be run as it is written."),
    code(
        "plugin/duplicate",
        "Two plugins have one name. One that replaces a built-in plugin says `replaces:` in its manifest.",
    ),
    code("plugin/file", "A file that a plugin names is not in its folder, or leads out of it."),
    code("plugin/missing", "A plugin that another one requires is not on."),
    code(
        "plugin/native",
        "A manifest asks for native code, and this kaws has none for the plugin: native code stands in the binary. Yours can be declared in plugin.yaml, or be a program.",
    ),
    code(
        "plugin/nodes",
        "A plugin is to run on nodes that its manifest does not offer, or speaks of `nodes` and offers none.",
    ),
    code(
        "plugin/not-installed",
        "kaws.lock names a plugin that is not on this machine. `kaws plugin install` installs all that it names, each with the hash it has there.",
    ),
    code(
        "plugin/runtime",
        "A manifest names a runtime that this kaws does not have, or a program that cannot be meant.",
    ),
    code("plugin/schema", "A plugin's schema of its settings is no JSON Schema."),
    code("plugin/slot", "Two plugins that are on provide the same thing, and only one can."),
    code(
        "plugin/unknown",
        "No plugin has this name: not in plugins/, not in a folder of pluginDirs or --plugin-dir, not among the built-in and contrib ones.",
    ),
    code("plugin/version", "A plugin asks for another release of kaws."),
    code(
        "plugin/writes",
        "A program does not say where it writes. Who installs it reads that before it is run.",
    ),
    code("policy/open-ingress", "A rule lets the whole internet in."),
    code(
        "policy/public-bucket",
        "A bucket without its four public access blocks, and not one that is meant to be read by all.",
    ),
    code("policy/unencrypted-volume", "A volume without encryption."),
    code("policy/wildcard-action", "A statement allows every action, of a service or of all."),
    code(
        "roll/checks",
        "Checks of the cluster do not hold, so no machine is replaced: one less could be one too many.",
    ),
    code(
        "roll/drain",
        "Pods did not leave a node in time, because a budget holds them or because they do not end. The node takes pods again; nothing of it was replaced.",
    ),
    code("roll/no-group", "There is no group of machines of this name."),
    code(
        "roll/not-over",
        "A roll was paused or interrupted, or goes on somewhere. There is one at a time.",
    ),
    code(
        "roll/not-whole",
        "A group has fewer machines that work than it is to have, and none has come for too long. No more are taken.",
    ),
    code(
        "roll/skew",
        "New nodes would have a newer kubelet than their API server, which Kubernetes does not support.",
    ),
    code(
        "roll/unmanaged-pods",
        "Pods on the node belong to nothing that would make them anew; evicted they are gone for good.",
    ),
    code("roll/unreachable", "Draining asks the API server, which cannot be reached from here."),
    code(
        "template/duplicate-key",
        "Two keys of one map come out the same, and one value would be lost.",
    ),
    code("template/each", "`$each` goes over something that is neither a list nor a map."),
    code("template/failed", "A template could not be evaluated."),
    code(
        "template/null",
        "A path in a text is null. Give the setting a default, or guard the text with `$when` or {{#if}}.",
    ),
    code(
        "template/secret",
        "A plugin names a secret that its manifest does not declare, or that is another plugin's.",
    ),
    code(
        "template/syntax",
        "A template does not parse. Braces of other languages (Helm's, for one) stand in `$literal:`, or behind a backslash: \\{{.",
    ),
    code(
        "template/unknown-helper",
        "No helper has this name: `kaws explain` does not list it, the reference page Helpers does.",
    ),
    code("template/unknown-path", "A template names something that no schema has."),
    code(
        "template/unknown-word",
        "Words that begin with `$` are kaws's own, and this is none. Data with such keys stands in `$literal`.",
    ),
    code(
        "validate/addons",
        "An add-on cannot be applied. The report of the controllers says why; add-ons of later phases wait for it.",
    ),
    code(
        "validate/api-server",
        "One of the API server's own checks fails. It serves none until all of them hold.",
    ),
    code(
        "validate/control-plane",
        "A controller does not run all of the control plane, or a part of it is not ready.",
    ),
    code(
        "validate/domain",
        "The name under which people reach the API server does not resolve where this runs.",
    ),
    code("validate/http", "An address that a plugin says must answer does not."),
    code(
        "validate/machines",
        "A group has fewer machines in service than it is to have. Auto Scaling says of each what it is; the machines' reports say why they did not come up.",
    ),
    code("validate/node", "A machine has not joined the cluster, or its node is not ready."),
    code(
        "validate/object",
        "An object that a plugin says must be there is not, or does not meet its condition.",
    ),
    code(
        "validate/outdated",
        "Machines were made before the last change of what their group makes machines from. They are as they were until they are replaced.",
    ),
    code("validate/pod", "A pod without which the cluster does not work is not ready."),
    code("validate/release", "A Helm release is not installed, or its last change failed."),
    code("validate/service", "A service that must answer has no address that is ready."),
    code(
        "validate/skew",
        "A kubelet is newer than its API server, or more than three minors older: Kubernetes supports neither.",
    ),
    code(
        "validate/snapshot",
        "The newest snapshot of etcd is more than three times as old as they are made. Without one there is nothing to restore.",
    ),
    code("validate/stack", "A stack is missing, failed, or is being changed."),
    code(
        "validate/target",
        "A load balancer's target does not answer: nobody reaches it through the load balancer.",
    ),
    code(
        "validate/unit",
        "A unit that must run on every machine that has it does not, or the machine has not said how it is.",
    ),
    code(
        "validate/unreachable",
        "Neither does the API server answer from here, nor has a controller reported lately.",
    ),
    code(
        "yaml/ambiguous-number",
        "YAML 1.1 and 1.2 read this number differently (0644 is 420 or 644). Quotes make it text.",
    ),
    code(
        "yaml/duplicate-key",
        "A key stands twice in one map. Readers of YAML disagree about which one counts.",
    ),
    code("yaml/merge-key", "Merge keys are not part of YAML 1.2."),
    code("yaml/syntax", "This is no YAML."),
    code("yaml/too-deep", "Values are nested too deeply to be a person's work."),
    code(
        "yaml/too-large",
        "The file, or what its aliases expand to, is too large to be a person's work.",
    ),
    code("yaml/unknown-tag", "Only CloudFormation's short tags are known."),
    code("yaml/unreadable", "The file is not text in UTF-8, or is no file."),
];

/// Areas whose files are checked against a JSON Schema.
pub const SCHEMA_AREAS: [&str; 8] =
    ["accept", "case", "config", "lock", "model", "order", "plugin", "settings"];

/// What can be wrong with a value in one of [`SCHEMA_AREAS`]; the code is `area/kind`.
pub const SCHEMA_KINDS: &[(&str, &str)] = &[
    ("enum", "The value is none of those that are possible."),
    ("format", "The text is not of the form asked for."),
    ("missing", "A key that must be there is not."),
    ("pattern", "The text does not match the pattern asked for."),
    ("range", "The value is too small, too large, or has too few or too many parts."),
    (
        "type",
        "The value is of another type than asked for. Versions and account numbers are text: write them in quotes.",
    ),
    ("unknown-key", "There is no setting of this name. Nothing is guessed and nothing ignored."),
    ("value", "The value is not one of the forms asked for."),
];

/// Returns what `code` means.
#[must_use]
pub fn explanation(code: &str) -> Option<&'static str> {
    if let Some(known) = CODES.iter().find(|c| c.code == code) {
        return Some(known.meaning);
    }
    let (area, kind) = code.split_once('/')?;
    SCHEMA_AREAS.contains(&area).then_some(())?;
    SCHEMA_KINDS.iter().find(|(k, _)| *k == kind).map(|(_, meaning)| *meaning)
}
