//! Which component flags hold lists and maps. Everything not named here is a scalar: two plugins that
//! set it differently disagree, while items of a list or map are entities of their own.
//!
//! Source: the flags' types in the components of Kubernetes 1.34 to 1.37 and etcd 3.6 and 3.7.

/// How the values of a flag merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    /// One value.
    Scalar,
    /// Items joined by commas.
    List,
    /// The flag is repeated for each item.
    Repeated,
    /// `key=value` pairs joined by commas.
    Map,
}

/// A flag that holds several values.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The first segment of the path: `apiServer`, or `kubelet` for a key of its configuration.
    pub component: &'static str,
    /// The flag's name.
    pub name: &'static str,
    /// How it merges.
    pub kind: FlagKind,
}

const fn flag(component: &'static str, name: &'static str, kind: FlagKind) -> Flag {
    Flag { component, name, kind }
}

/// The flags that hold several values, sorted.
pub const FLAGS: &[Flag] = &[
    flag("apiServer", "api-audiences", FlagKind::List),
    flag("apiServer", "cors-allowed-origins", FlagKind::List),
    flag("apiServer", "disable-admission-plugins", FlagKind::List),
    flag("apiServer", "enable-admission-plugins", FlagKind::List),
    flag("apiServer", "etcd-servers", FlagKind::List),
    flag("apiServer", "etcd-servers-overrides", FlagKind::List),
    flag("apiServer", "feature-gates", FlagKind::Map),
    flag("apiServer", "kubelet-preferred-address-types", FlagKind::Scalar),
    flag("apiServer", "requestheader-allowed-names", FlagKind::List),
    flag("apiServer", "requestheader-extra-headers-prefix", FlagKind::List),
    flag("apiServer", "requestheader-group-headers", FlagKind::List),
    flag("apiServer", "requestheader-uid-headers", FlagKind::List),
    flag("apiServer", "requestheader-username-headers", FlagKind::List),
    flag("apiServer", "runtime-config", FlagKind::Map),
    flag("apiServer", "service-account-issuer", FlagKind::Repeated),
    flag("apiServer", "service-account-key-file", FlagKind::Repeated),
    flag("apiServer", "tls-cipher-suites", FlagKind::List),
    flag("apiServer", "tls-sni-cert-key", FlagKind::Repeated),
    flag("apiServer", "watch-cache-sizes", FlagKind::List),
    flag("controllerManager", "controllers", FlagKind::List),
    flag("controllerManager", "feature-gates", FlagKind::Map),
    flag("controllerManager", "requestheader-allowed-names", FlagKind::List),
    flag("etcd", "feature-gates", FlagKind::Map),
    flag("etcd", "initial-cluster", FlagKind::Map),
    flag("kubelet", "featureGates", FlagKind::Map),
    flag("scheduler", "feature-gates", FlagKind::Map),
];

/// Returns how a component's flag merges.
#[must_use]
pub fn flag_kind(component: &str, name: &str) -> FlagKind {
    let found = FLAGS.iter().find(|f| f.component == component && f.name == name);
    found.map_or(FlagKind::Scalar, |f| f.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_unique() {
        assert!(
            FLAGS.windows(2).all(|w| (w[0].component, w[0].name) < (w[1].component, w[1].name))
        );
    }
}
