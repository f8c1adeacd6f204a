//! What can be wrong with what people write and plugins answer. Sorted.

use super::{Code, code};

pub(super) const CODES: &[Code] = &[
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
