//! What several components say, and must say alike.

use super::{API, Rules};
use crate::builtin::checks::{about, setter, text};
use crate::finding::Finding;
use crate::model::Entity;

/// A component's part of the model, and a flag of it.
type Of = (&'static str, &'static str);

/// Flags of two components that have the same value.
const PAIRS: [(Of, Of); 2] = [
    (("controllerManager", "service-cluster-ip-range"), (API, "service-cluster-ip-range")),
    (
        ("controllerManager", "service-account-private-key-file"),
        (API, "service-account-signing-key-file"),
    ),
];

impl Rules<'_, '_> {
    /// Components agree among themselves, and with what `cluster.yaml` says of the network.
    pub(super) fn across_components(&mut self, services: &str) {
        for ((one, flag), (other, theirs)) in PAIRS {
            let (a, b) = (text(self.model, one, flag), text(self.model, other, theirs));
            if let (Some(a), Some(b)) = (a, b)
                && a != b
            {
                let said = format!(
                    "kube-controller-manager has --{flag} {a}, and kube-apiserver --{theirs} {b}"
                );
                let setter_of = |s, f| setter(self.model, s, f);
                self.disagree(
                    &[one, "flags", flag],
                    setter_of(one, flag),
                    setter_of(other, theirs),
                    said,
                );
            }
        }
        let flag = "service-cluster-ip-range";
        if let Some(range) = self.text(flag).filter(|range| range != services) {
            let said = format!(
                "kube-apiserver has --{flag} {range}, and network.serviceCIDR is {services}: names and certificates are made for that"
            );
            self.disagree(&[API, "flags", flag], setter(self.model, API, flag), None, said);
        }
        let (flag, key) = ("cluster-cidr", "clusterCIDR");
        let pods = text(self.model, "controllerManager", flag);
        let proxy = self.model.entity(&["kubeProxy", "config", key]);
        if let (Some(pods), Some(proxy)) = (pods, proxy)
            && proxy.body.as_str() != Some(&pods)
        {
            let own = super::shown(&proxy.body);
            let said =
                format!("kube-proxy has {key} {own}, and kube-controller-manager --{flag} {pods}");
            let other = setter(self.model, "controllerManager", flag);
            self.disagree(&["kubeProxy", "config", key], Some(proxy), other, said);
        }
    }

    fn disagree(
        &mut self,
        path: &[&str],
        one: Option<&Entity>,
        other: Option<&Entity>,
        said: String,
    ) {
        let Some(entity) = one else { return };
        let mut finding = about(Finding::fatal("flags/disagree", said), path, entity);
        if let Some(other) = other {
            let owners = other.owner_names().join(", ");
            finding = finding.related(other.body.key_origin(), format!("{owners} sets this"));
        }
        self.findings.push(finding.help("write the same for both"));
    }
}
