//! The entities: what can stand at the leaves of the model. Their doc comments are the published
//! schema's descriptions. Not here: where in the model each stands (`shape`).

mod addon;
mod api_server;
mod aws;
mod hook;
mod identity;
mod machine;
mod stage;

use std::sync::OnceLock;

use serde_json::{Value, json};

use addon::Manifest;
pub use addon::Release;
use api_server::{Admission, AuditRule, AuthorizationWebhook, Encryption, Jwt};
pub use aws::Rule;
use aws::{Output, Parameter, Resource, Statement};
pub use hook::{Behavior, HOST_EVENTS, HostBehavior, HostHook, NODE_EVENTS, NodeHook};
use identity::SecretName;
pub use identity::{Authority, Certificate, Key, KeyKind};
use machine::{DropIn, Unit};
pub use machine::{File, HostVolume, Pin};
pub use stage::{Check, Step};

use crate::schema::{Schema, of};

/// What an entity is. Its name is that of its definition in the published schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::AsRefStr)]
pub enum Kind {
    /// Configuration of an admission plugin.
    Admission,
    /// Anything.
    Any,
    /// A rule of the audit policy.
    AuditRule,
    /// A certificate authority.
    Authority,
    /// A webhook that authorises requests.
    AuthorizationWebhook,
    /// A certificate.
    Certificate,
    /// A check of the running cluster.
    Check,
    /// A drop-in of a unit.
    DropIn,
    /// Encryption at rest.
    Encryption,
    /// A file.
    File,
    /// A flag's value.
    Flag,
    /// Hops to the metadata service.
    HopLimit,
    /// A hook where kaws runs.
    HostHook,
    /// A folder of the node.
    HostVolume,
    /// An issuer of tokens.
    Jwt,
    /// A key or token.
    Key,
    /// A setting of the kubelet.
    KubeletSetting,
    /// A managed policy.
    ManagedPolicy,
    /// Kubernetes objects.
    Manifest,
    /// A hook of machines.
    NodeHook,
    /// An output of a stack.
    Output,
    /// A parameter of a stack.
    Parameter,
    /// A patch.
    Patch,
    /// Something that is downloaded.
    Pin,
    /// A Helm release.
    Release,
    /// A CloudFormation resource.
    Resource,
    /// A rule of a security group.
    Rule,
    /// A secret's name.
    SecretName,
    /// A statement of a policy.
    Statement,
    /// A step of the deployment.
    Step,
    /// True.
    Switch,
    /// A kernel parameter's value.
    Sysctl,
    /// A taint.
    Taint,
    /// Text.
    Text,
    /// A systemd unit.
    Unit,
}

/// All kinds, in order.
const KINDS: usize = Kind::Unit as usize + 1;
static SCHEMAS: [OnceLock<Schema>; KINDS] = [const { OnceLock::new() }; KINDS];

impl Kind {
    /// Returns its JSON Schema.
    #[must_use]
    pub fn schema_value(self) -> Value {
        match self {
            Self::Any | Self::KubeletSetting => json!({"title": "a value"}),
            Self::Text => json!({"title": "a text", "type": "string"}),
            Self::Switch => json!({"title": "a switch", "type": "boolean"}),
            Self::HopLimit => {
                json!({"title": "a number of hops", "type": "integer", "minimum": 1, "maximum": 64})
            }
            Self::Flag | Self::Sysctl => {
                json!({"title": "a value", "type": ["string", "integer", "number", "boolean"]})
            }
            Self::Admission => of::<Admission>(),
            Self::AuditRule => of::<AuditRule>(),
            Self::Authority => of::<Authority>(),
            Self::AuthorizationWebhook => of::<AuthorizationWebhook>(),
            Self::Certificate => of::<Certificate>(),
            Self::Check => of::<Check>(),
            Self::DropIn => of::<DropIn>(),
            Self::Encryption => of::<Encryption>(),
            Self::File => of::<File>(),
            Self::HostHook => of::<HostHook>(),
            Self::NodeHook => of::<NodeHook>(),
            Self::HostVolume => of::<HostVolume>(),
            Self::Jwt => of::<Jwt>(),
            Self::Key => of::<Key>(),
            Self::ManagedPolicy => {
                json!({"title": "a managed policy", "type": ["string", "object"],
                "description": "Its ARN, or a CloudFormation function or $output that gives it."})
            }
            Self::Manifest => of::<Manifest>(),
            Self::Output => of::<Output>(),
            Self::Parameter => of::<Parameter>(),
            Self::Patch => of::<super::patch::PatchForm>(),
            Self::Pin => of::<Pin>(),
            Self::Release => of::<Release>(),
            Self::Resource => of::<Resource>(),
            Self::Rule => of::<Rule>(),
            Self::SecretName => of::<SecretName>(),
            Self::Statement => of::<Statement>(),
            Self::Step => of::<Step>(),
            Self::Taint => of::<crate::config::Taint>(),
            Self::Unit => of::<Unit>(),
        }
    }

    /// Returns the compiled schema.
    ///
    /// # Panics
    /// Never: a test compiles them all.
    #[must_use]
    pub fn schema(self) -> &'static Schema {
        SCHEMAS[self as usize].get_or_init(|| {
            Schema::compile(&self.schema_value()).expect("a test compiles the schema of every kind")
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schema_of_every_kind_compiles_and_has_a_title() {
        for section in super::super::SECTIONS {
            let value = section.kind.schema_value();
            assert!(value["title"].is_string(), "{:?}", section.kind);
            assert!(section.kind.schema().value().is_object());
        }
    }
}
