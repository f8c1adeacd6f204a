// Reads the configuration files of Kubernetes' components into the types that the components read them into, and
// refuses what these do not know.
//
//	configs FILE...
//
// Prints a line for each file that cannot be read.
package main

import (
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admission "k8s.io/apiserver/pkg/apis/apiserver/v1"
	audit "k8s.io/apiserver/pkg/apis/audit/v1"
	proxy "k8s.io/kube-proxy/config/v1alpha1"
	scheduler "k8s.io/kube-scheduler/config/v1"
	credentials "k8s.io/kubelet/config/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	security "k8s.io/pod-security-admission/admission/api/v1"
	"sigs.k8s.io/yaml"
)

var types = map[string]func() any{
	"apiserver.config.k8s.io/v1 AuthenticationConfiguration":           func() any { return &admission.AuthenticationConfiguration{} },
	"apiserver.config.k8s.io/v1 AuthorizationConfiguration":            func() any { return &admission.AuthorizationConfiguration{} },
	"apiserver.config.k8s.io/v1 AdmissionConfiguration":                func() any { return &admission.AdmissionConfiguration{} },
	"apiserver.config.k8s.io/v1 EncryptionConfiguration":               func() any { return &admission.EncryptionConfiguration{} },
	"audit.k8s.io/v1 Policy":                                           func() any { return &audit.Policy{} },
	"kubelet.config.k8s.io/v1beta1 KubeletConfiguration":               func() any { return &kubelet.KubeletConfiguration{} },
	"kubelet.config.k8s.io/v1 CredentialProviderConfig":                func() any { return &credentials.CredentialProviderConfig{} },
	"kubeproxy.config.k8s.io/v1alpha1 KubeProxyConfiguration":          func() any { return &proxy.KubeProxyConfiguration{} },
	"kubescheduler.config.k8s.io/v1 KubeSchedulerConfiguration":        func() any { return &scheduler.KubeSchedulerConfiguration{} },
	"pod-security.admission.config.k8s.io/v1 PodSecurityConfiguration": func() any { return &security.PodSecurityConfiguration{} },
}

func read(text []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	make, known := types[kind.APIVersion+" "+kind.Kind]
	if !known {
		return fmt.Errorf("no component reads %s %s", kind.APIVersion, kind.Kind)
	}
	object := make()
	if err := yaml.UnmarshalStrict(text, object); err != nil {
		return err
	}
	// What an admission plugin is configured with lies inside.
	if whole, is := object.(*admission.AdmissionConfiguration); is {
		for _, plugin := range whole.Plugins {
			if plugin.Configuration != nil {
				if err := read(plugin.Configuration.Raw); err != nil {
					return fmt.Errorf("%s: %w", plugin.Name, err)
				}
			}
		}
	}
	return nil
}

func main() {
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err == nil {
			err = read(text)
		}
		if err != nil {
			fmt.Printf("%s: %v\n", path, err)
		}
	}
}
