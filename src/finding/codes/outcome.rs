//! What can be wrong with what becomes of it: rendered, deployed, running. Sorted.

use super::{Code, code};

pub(super) const CODES: &[Code] = &[
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
];
