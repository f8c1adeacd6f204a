// Reads the configuration files of Kubernetes' components into the types that the components read them into, and
// refuses what these do not know.
//
//	configs FILE...     prints a line for each file that cannot be read
//	configs --fields    prints the fields of the types that cluster.yaml and plugins write, as JSON
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
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

// What people write of Kubernetes' own configuration: whole files, or parts of them.
var written = []any{
	kubelet.KubeletConfiguration{}, proxy.KubeProxyConfiguration{}, scheduler.KubeSchedulerProfile{},
	admission.JWTAuthenticator{}, admission.WebhookConfiguration{}, admission.ProviderConfiguration{}, audit.PolicyRule{},
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// kind says what a value of a type is written as: string, bool, int, float, duration, quantity, any, []KIND, {}KIND,
// or the name of a struct, whose fields it adds.
func kind(of reflect.Type, structs map[string]map[string]string) string {
	switch {
	case of == reflect.TypeFor[metav1.Duration]():
		return "duration"
	case of == reflect.TypeFor[resource.Quantity]():
		return "quantity"
	case of.Kind() == reflect.Pointer:
		return kind(of.Elem(), structs)
	case reflect.PointerTo(of).Implements(unmarshaler):
		return "any"
	}
	switch of.Kind() {
	case reflect.Slice:
		return "[]" + kind(of.Elem(), structs)
	case reflect.Map:
		return "{}" + kind(of.Elem(), structs)
	case reflect.Struct:
		if structs[of.Name()] == nil {
			structs[of.Name()] = map[string]string{}
			fields(of, structs[of.Name()], structs)
		}
		return of.Name()
	case reflect.String, reflect.Bool:
		return of.Kind().String()
	case reflect.Float32, reflect.Float64:
		return "float"
	case reflect.Interface:
		return "any"
	default:
		return "int"
	}
}

func fields(of reflect.Type, into map[string]string, structs map[string]map[string]string) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Type == reflect.TypeFor[metav1.TypeMeta]() || name == "-":
		case field.Anonymous && name == "":
			fields(field.Type, into, structs)
		default:
			into[name] = kind(field.Type, structs)
		}
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--fields" {
		structs := map[string]map[string]string{}
		for _, object := range written {
			kind(reflect.TypeOf(object), structs)
		}
		json.NewEncoder(os.Stdout).Encode(structs)
		return
	}
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
