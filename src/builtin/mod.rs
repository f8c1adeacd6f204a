//! The native parts of kaws's own plugins: where there is logic that a screenful of template is not
//! enough for. Each lies in the module of its plugin's name; the manifest in `plugins/<name>/`.
//!
//! Not here: the engine. These are plugins like any other, and what they may do is in their manifests.

mod api_server;
mod bundle;
mod checks;
mod cloudformation;
mod control_plane;
mod custom_tags;
mod etcd;
mod etcd_members;
mod group;
mod helm;
mod hooks;
mod iam;
mod kube_proxy;
mod kubelet;
mod limits;
mod manifests;
mod network;
mod node_pools;
mod policy;
mod static_pod;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plugin::Plugin;

/// Returns the native code of kaws's own plugins, by the name of the plugin.
#[must_use]
pub fn natives() -> BTreeMap<&'static str, Arc<dyn Plugin>> {
    let all: [(&str, Arc<dyn Plugin>); 19] = [
        ("api-server", Arc::new(api_server::ApiServer)),
        ("cloudformation", Arc::new(cloudformation::CloudFormation)),
        ("control-plane", Arc::new(control_plane::ControlPlane)),
        ("controller-manager", Arc::new(static_pod::ControllerManager)),
        ("custom-tags", Arc::new(custom_tags::CustomTags)),
        ("etcd", Arc::new(etcd::Etcd)),
        ("etcd-members", Arc::new(etcd_members::EtcdMembers)),
        ("helm", Arc::new(helm::Helm)),
        ("hooks", Arc::new(hooks::Hooks)),
        ("iam", Arc::new(iam::Iam)),
        ("kube-proxy", Arc::new(kube_proxy::KubeProxy)),
        ("kubelet", Arc::new(kubelet::Kubelet)),
        ("limits", Arc::new(limits::Limits)),
        ("manifests", Arc::new(manifests::Manifests)),
        ("network", Arc::new(network::Network)),
        ("node-bundle", Arc::new(bundle::NodeBundle)),
        ("node-pools", Arc::new(node_pools::NodePools)),
        ("policy", Arc::new(policy::Policy)),
        ("scheduler", Arc::new(static_pod::Scheduler)),
    ];
    all.into()
}
