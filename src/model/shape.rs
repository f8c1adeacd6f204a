//! The shape of every contribution and of the model: one table, from which merging, the published JSON
//! Schema and the reference page are made. It grows by adding a row.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::entities::Kind;

/// One kind of place in the model.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The path of an entity; `<x>` is any name.
    pub path: &'static str,
    /// What the entity is.
    pub kind: Kind,
    /// Whether a list of names may stand in place of the map, each standing for `name: true`.
    pub listed: bool,
    /// Whether the last name is the plugin's own business, kept as `<plugin>/<name>`.
    pub private: bool,
    /// What it is for.
    pub doc: &'static str,
}

const fn row(path: &'static str, kind: Kind, doc: &'static str) -> Section {
    Section { path, kind, listed: false, private: false, doc }
}

const fn listed(path: &'static str, kind: Kind, doc: &'static str) -> Section {
    Section { listed: true, ..row(path, kind, doc) }
}

const fn private(path: &'static str, kind: Kind, doc: &'static str) -> Section {
    Section { private: true, ..row(path, kind, doc) }
}

/// Every kind of place, sorted by path.
pub const SECTIONS: &[Section] = &[
    row(
        "apiServer.admission.plugins.<name>",
        Kind::Admission,
        "Configuration of an admission plugin; listing it also turns it on.",
    ),
    row("apiServer.audit.<name>", Kind::AuditRule, "A rule of the audit policy."),
    row(
        "apiServer.authentication.jwt.<name>",
        Kind::Jwt,
        "An issuer of tokens that the API server trusts, as AuthenticationConfiguration spells it.",
    ),
    row(
        "apiServer.authorization.webhooks.<name>",
        Kind::AuthorizationWebhook,
        "A webhook that is asked before RBAC.",
    ),
    row(
        "apiServer.encryption.<name>",
        Kind::Encryption,
        "Resources that are encrypted in etcd, and how.",
    ),
    row("apiServer.flags.<name>", Kind::Flag, "A flag of kube-apiserver, without its dashes."),
    row(
        "apiServer.volumes.<name>",
        Kind::HostVolume,
        "A folder or file of the node that kube-apiserver sees.",
    ),
    private(
        "checks.<name>",
        Kind::Check,
        "A check of the running cluster; `validate:` of a manifest lands here.",
    ),
    row("controllerManager.flags.<name>", Kind::Flag, "A flag of kube-controller-manager."),
    row("etcd.flags.<name>", Kind::Flag, "A flag of etcd."),
    row("helm.releases.<name>", Kind::Release, "A Helm release."),
    private(
        "hooks.after-create.<name>",
        Kind::HostHook,
        "What kaws runs once a cluster has been made.",
    ),
    private(
        "hooks.after-delete.<name>",
        Kind::HostHook,
        "What kaws runs once a cluster is gone: what a plugin left elsewhere goes here.",
    ),
    private("hooks.after-deploy.<name>", Kind::HostHook, "What kaws runs after each `kaws up`."),
    private(
        "hooks.after-node-start.<name>",
        Kind::NodeHook,
        "What a machine runs once it is healthy, before it says so.",
    ),
    private(
        "hooks.after-update.<name>",
        Kind::HostHook,
        "What kaws runs once a cluster has been changed.",
    ),
    private(
        "hooks.before-create.<name>",
        Kind::HostHook,
        "What kaws runs before a cluster is made.",
    ),
    private(
        "hooks.before-delete.<name>",
        Kind::HostHook,
        "What kaws runs before a cluster is deleted, while it is still there.",
    ),
    private("hooks.before-deploy.<name>", Kind::HostHook, "What kaws runs before each `kaws up`."),
    private(
        "hooks.before-node-start.<name>",
        Kind::NodeHook,
        "What a machine runs before its kubelet, or etcd, starts.",
    ),
    private(
        "hooks.before-update.<name>",
        Kind::HostHook,
        "What kaws runs before a cluster is changed.",
    ),
    row(
        "iam.<group>.managedPolicies.<name>",
        Kind::ManagedPolicy,
        "ARN of a managed policy of the group's role.",
    ),
    row(
        "iam.<group>.statements.<sid>",
        Kind::Statement,
        "A statement of the policy of the group's role, by its Sid.",
    ),
    row(
        "iam.serviceAccounts.<account>.statements.<sid>",
        Kind::Statement,
        "A statement of the policy of a service account's role; the account is namespace/name.",
    ),
    row("kubeProxy.config.<key>", Kind::Any, "A setting of KubeProxyConfiguration."),
    row("kubelet.<group>.config.<key>", Kind::KubeletSetting, "A setting of KubeletConfiguration."),
    row("kubelet.<group>.labels.<key>", Kind::Text, "A label the node registers with."),
    row("kubelet.<group>.taints.<key>", Kind::Taint, "A taint the node registers with."),
    row(
        "machines.<group>.dropins.<unit/name>",
        Kind::DropIn,
        "A drop-in of a systemd unit; the key is kubelet.service/10-mine.conf.",
    ),
    row("machines.<group>.files.<path>", Kind::File, "A file."),
    listed(
        "machines.<group>.images.<image>",
        Kind::Switch,
        "A container image to have on the node before it is needed.",
    ),
    row(
        "machines.<group>.metadataHopLimit",
        Kind::HopLimit,
        "How many hops away the metadata service answers: 1 for the node alone, 2 for pods.",
    ),
    listed("machines.<group>.modules.<name>", Kind::Switch, "A kernel module to load."),
    listed("machines.<group>.packages.<name>", Kind::Switch, "A package of the operating system."),
    row("machines.<group>.sysctls.<key>", Kind::Sysctl, "A kernel parameter."),
    row("machines.<group>.units.<name>", Kind::Unit, "A systemd unit."),
    row("manifests.<name>", Kind::Manifest, "Kubernetes objects that are applied to the cluster."),
    row("network.subnets.<kind>.tags.<key>", Kind::Text, "A tag of all private or public subnets."),
    private(
        "patches.<name>",
        Kind::Patch,
        "The one way to change or remove what another plugin contributed.",
    ),
    private(
        "pins.<name>",
        Kind::Pin,
        "Something that nodes download; `pins:` of a manifest lands here.",
    ),
    row("pki.authorities.<name>", Kind::Authority, "A certificate authority that deploy mints."),
    row("pki.certificates.<name>", Kind::Certificate, "A certificate that deploy mints."),
    row("pki.keys.<name>", Kind::Key, "A key or token that deploy mints."),
    row("scheduler.flags.<name>", Kind::Flag, "A flag of kube-scheduler."),
    row("scheduler.profiles.<name>", Kind::Any, "A profile of kube-scheduler, by schedulerName."),
    private("secrets.<name>", Kind::SecretName, "A secret's name; never its value."),
    row("securityGroups.<group>.ingress.<rule>", Kind::Rule, "What may reach a security group."),
    listed(
        "stacks.<stack>.after.<stack>",
        Kind::Switch,
        "A stack that this one comes after, beside those whose outputs it uses.",
    ),
    row("stacks.<stack>.conditions.<id>", Kind::Any, "A condition of the template."),
    row("stacks.<stack>.description", Kind::Text, "What the template says of itself."),
    row("stacks.<stack>.mappings.<id>", Kind::Any, "A mapping of the template."),
    row("stacks.<stack>.outputs.<id>", Kind::Output, "An output of the template."),
    row("stacks.<stack>.parameters.<id>", Kind::Parameter, "A parameter of the template."),
    row("stacks.<stack>.protected", Kind::Switch, "Whether the stack refuses to be deleted."),
    row(
        "stacks.<stack>.resources.<id>",
        Kind::Resource,
        "A resource, as CloudFormation spells it.",
    ),
    row("stacks.<stack>.tags.<key>", Kind::Text, "A tag of everything in the stack."),
    private(
        "steps.<name>",
        Kind::Step,
        "A step of the deployment; `deploy:` of a manifest lands here.",
    ),
    row("values.<plugin>.<key>", Kind::Any, "A value for other plugins' templates."),
];

/// Places that only cluster.yaml may patch: what a node needs to come up, and the trust it rests on. A
/// `*` stands for any name, or for the end of one.
pub const PROTECTED: &[&[&str]] = &[
    &["apiServer", "flags", "authentication-config"],
    &["apiServer", "flags", "authorization-config"],
    &["apiServer", "flags", "client-ca-file"],
    &["apiServer", "flags", "etcd-*"],
    &["apiServer", "flags", "service-account-*"],
    &["apiServer", "flags", "tls-*"],
    &["machines", "*", "files", "/etc/kaws/*"],
    &["machines", "*", "files", "/etc/kubernetes/pki/*"],
    &["machines", "*", "files", "/opt/kaws/*"],
    &["machines", "*", "units", "kaws*"],
    &["pki", "authorities", "*"],
    &["pki", "certificates", "*"],
    &["pki", "keys", "*"],
    &[
        "stacks",
        "*",
        "resources",
        "*LaunchTemplate",
        "Properties",
        "LaunchTemplateData",
        "UserData",
    ],
];

struct Pattern {
    segments: Vec<&'static str>,
    section: &'static Section,
}

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    SECTIONS
        .iter()
        .map(|section| Pattern { segments: section.path.split('.').collect(), section })
        .collect()
});

/// What a path's beginning leads to.
pub(super) enum Reached {
    /// An entity of this section; the pattern says more of where names stand.
    Entity(&'static Section),
    /// A map of parts; the names that can stand next, if they are fixed.
    Map(Vec<&'static str>),
    /// Nothing.
    Unknown,
}

/// Returns what `path` reaches.
pub(super) fn reach(path: &[&str]) -> Reached {
    let mut next = Vec::new();
    let mut open = false;
    // A fixed name beats a free one: `iam.serviceAccounts` is no group.
    let fixed_second = |p: &Pattern| {
        path.len() > 1
            && !is_free(p.segments.get(1).copied().unwrap_or(""))
            && p.segments.get(1) == path.get(1)
    };
    let prefer_fixed =
        PATTERNS.iter().any(|p| p.segments[0] == *path.first().unwrap_or(&"") && fixed_second(p));
    for pattern in PATTERNS.iter() {
        let fits = path.len() <= pattern.segments.len()
            && path
                .iter()
                .zip(&pattern.segments)
                .all(|(name, segment)| is_free(segment) || segment == name)
            && (!prefer_fixed || fixed_second(pattern));
        if !fits {
            continue;
        }
        if pattern.segments.len() == path.len() {
            return Reached::Entity(pattern.section);
        }
        open = true;
        let segment = pattern.segments[path.len()];
        if !is_free(segment) && !next.contains(&segment) {
            next.push(segment);
        }
    }
    if open { Reached::Map(next) } else { Reached::Unknown }
}

fn is_free(segment: &str) -> bool {
    segment.starts_with('<')
}

/// Returns the section of the entity at `path`, if one can be there.
#[must_use]
pub fn section_of(path: &[&str]) -> Option<&'static Section> {
    match reach(path) {
        Reached::Entity(section) => Some(section),
        _ => None,
    }
}

/// Returns the JSON Schema of contributions, as it is published for authors of plugins.
#[must_use]
pub fn contribution_schema() -> Value {
    let mut root = Map::new();
    let mut definitions = Map::new();
    for section in SECTIONS {
        let name = section.kind.as_ref();
        if !definitions.contains_key(name) {
            let mut schema = section.kind.schema_value();
            hoist(&mut schema, &mut definitions);
            definitions.insert(name.to_owned(), schema);
        }
        let entity = json!({"description": section.doc, "anyOf": [
            {"$ref": format!("#/$defs/{name}")},
            {"type": "object", "required": ["$default"], "additionalProperties": false, "properties": {"$default": true}},
        ]});
        let segments: Vec<&str> = section.path.split('.').collect();
        place(&mut root, &segments, entity);
    }
    root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".to_owned(), json!("a contribution"));
    root.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(root)
}

/// Moves a schema's own definitions into the common ones, so that references stay short.
fn hoist(schema: &mut Value, definitions: &mut Map<String, Value>) {
    if let Some(Value::Object(own)) = schema.as_object_mut().and_then(|m| m.remove("$defs")) {
        definitions.extend(own);
    }
    if let Some(map) = schema.as_object_mut() {
        map.remove("$schema");
    }
}

fn place(map: &mut Map<String, Value>, segments: &[&str], entity: Value) {
    map.entry("type").or_insert_with(|| json!("object"));
    let Some((first, rest)) = segments.split_first() else { return };
    let slot = if is_free(first) {
        map.entry("additionalProperties").or_insert_with(|| json!({}))
    } else {
        map.entry("additionalProperties").or_insert_with(|| json!(false));
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        let Some(properties) = properties.as_object_mut() else { return };
        properties.entry((*first).to_owned()).or_insert_with(|| json!({}))
    };
    if !slot.is_object() {
        *slot = json!({});
    }
    if let Value::Object(next) = slot {
        if rest.is_empty() {
            next.extend(entity.as_object().cloned().unwrap_or_default());
        } else {
            place(next, rest, entity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_unique_and_documented() {
        let paths: Vec<&str> = SECTIONS.iter().map(|s| s.path).collect();
        let mut sorted = paths.clone();
        sorted.sort_by_key(|p| p.replace(['<', '>'], ""));
        sorted.dedup();
        for section in SECTIONS {
            assert!(section.doc.ends_with('.'), "{}", section.path);
        }
        assert_eq!(paths.len(), sorted.len());
    }

    #[test]
    fn a_fixed_name_beats_a_free_one() {
        assert_eq!(
            section_of(&["iam", "serviceAccounts", "a/b", "statements", "S"]).unwrap().path,
            "iam.serviceAccounts.<account>.statements.<sid>"
        );
        assert_eq!(
            section_of(&["iam", "worker", "statements", "S"]).unwrap().path,
            "iam.<group>.statements.<sid>"
        );
        assert!(section_of(&["iam", "serviceAccounts", "statements", "S"]).is_none());
        assert!(matches!(reach(&["machines", "etcd", "file"]), Reached::Unknown));
    }

    #[test]
    fn the_published_schema_compiles_and_takes_a_contribution() {
        let schema = crate::schema::Schema::compile(&contribution_schema()).unwrap();
        let text = "machines: {etcd: {files: {/a: {content: x}}, metadataHopLimit: {$default: 1}}}";
        let node = crate::value::read(&crate::origin::SourceFile::new("c", text)).unwrap();
        let wording =
            crate::schema::Wording { area: "model", subject: "x", label: None, source: None };
        assert!(schema.check(&node, &wording).is_empty());
    }
}
