// Prints what one Kubernetes component takes on its command line, as JSON: its flags, its feature gates and,
// for kube-apiserver, its admission plugins. scripts/kubernetes_flags.py writes the second file of this
// package, which says the component, and builds one program for each: kube-proxy takes every flag that any
// package of its program registers, so two components in one program would give it flags it has not.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register" // Every component's main imports it.
	"k8s.io/component-base/version"
)

// What the second file sets: the component's command; for the kubelet, which keeps its flags apart from its
// command, what adds them to a set; for kube-apiserver, what names its admission plugins.
var (
	command   func() *cobra.Command
	apart     func(*pflag.FlagSet)
	admission func() (ordered, registered, off []string)
)

type flag struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Default    string `json:"default"`
	Deprecated string `json:"deprecated,omitempty"`
	Hidden     bool   `json:"hidden,omitempty"`
}

type gate struct {
	Stage   string `json:"stage"`
	Default bool   `json:"default"`
	Locked  bool   `json:"locked"`
}

type answer struct {
	Version string          `json:"version"`
	Flags   []flag          `json:"flags"`
	Gates   map[string]gate `json:"gates"`
	Known   []string        `json:"known,omitempty"`
	On      []string        `json:"on,omitempty"`
}

// Some components only write in a flag's help text that it is deprecated.
var inHelp = regexp.MustCompile(`(?s)^DEPRECATED:?\s+(.*)$`)

func deprecated(f *pflag.Flag) string {
	if f.Deprecated != "" {
		return f.Deprecated
	}
	if found := inHelp.FindStringSubmatch(f.Usage); found != nil {
		return found[1]
	}
	return ""
}

func flags(cmd *cobra.Command) []flag {
	set := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	if apart != nil {
		apart(set)
		set.BoolP("help", "h", false, "")
	} else {
		// What the components' main does before it runs the command.
		cmd.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
		logs.AddFlags(cmd.PersistentFlags())
		cmd.InitDefaultHelpFlag()
		set.AddFlagSet(cmd.Flags())
		set.AddFlagSet(cmd.PersistentFlags())
	}
	var all []flag
	set.VisitAll(func(f *pflag.Flag) {
		all = append(all, flag{f.Name, f.Value.Type(), f.DefValue, deprecated(f), f.Hidden})
	})
	return all
}

// The set could miss some flags, or have too many: the help text has to name the same ones.
func compare(cmd *cobra.Command, all []flag) error {
	var help bytes.Buffer
	cmd.SetOut(&help)
	if err := cmd.Help(); err != nil {
		return err
	}
	told := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(help.String(), -1) {
		told[line[1]] = true
	}
	for _, f := range all {
		if !f.Hidden && !told[f.Name] {
			return fmt.Errorf("%s is not in the help text", f.Name)
		}
		delete(told, f.Name)
	}
	if len(told) > 0 {
		return fmt.Errorf("only the help text has %v", told)
	}
	return nil
}

// Plugins that are known, in the order they run, and those of them that are on by default.
func plugins() (known, on []string, err error) {
	ordered, registered, off := admission()
	if len(ordered) != len(registered) {
		return nil, nil, fmt.Errorf("%d plugins have an order, %d are registered", len(ordered), len(registered))
	}
	for _, name := range ordered {
		if !slices.Contains(registered, name) {
			return nil, nil, fmt.Errorf("%s is not registered", name)
		}
		if !slices.Contains(off, name) {
			on = append(on, name)
		}
	}
	return ordered, on, nil
}

func ask() (answer, error) {
	cmd := command()
	is := answer{Version: version.DefaultKubeBinaryVersion, Flags: flags(cmd), Gates: map[string]gate{}}
	if err := compare(cmd, is.Flags); err != nil {
		return is, err
	}
	stages := map[string]string{"ALPHA": "Alpha", "BETA": "Beta", "": "GA", "DEPRECATED": "Deprecated"}
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		stage, ok := stages[string(spec.PreRelease)]
		if !ok {
			return is, fmt.Errorf("%s has an unknown stage: %s", name, spec.PreRelease)
		}
		is.Gates[string(name)] = gate{stage, spec.Default, spec.LockToDefault}
	}
	var err error
	if admission != nil {
		is.Known, is.On, err = plugins()
	}
	return is, err
}

func main() {
	is, err := ask()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(is)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
