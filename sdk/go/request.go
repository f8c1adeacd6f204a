package kaws

// What a program is asked.

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A Request is what a program is asked. It is about a stage, an event or a lookup: just one of them.
//
// What each part holds, `kaws plugin schema request` says; what was not told is empty.
type Request struct {
	Kaws      string              `json:"kaws"`
	Stage     string              `json:"stage"`
	Event     string              `json:"event"`
	Name      string              `json:"name"`
	Plugin    Plugin              `json:"plugin"`
	Cluster   Document            `json:"cluster"`
	Groups    map[string]Group    `json:"groups"`
	Model     Document            `json:"model"`
	Plugins   map[string]Plugin   `json:"plugins"`
	Artifacts map[string]Made     `json:"artifacts"`
	Lookups   map[string]Document `json:"lookups"`
	Facts     Document            `json:"facts"`
	Secrets   Secrets             `json:"secrets"`
}

// A Plugin is a plugin as a cluster uses it.
type Plugin struct {
	Name         string              `json:"name"`
	Version      string              `json:"version"`
	Settings     Document            `json:"settings"`
	PoolSettings map[string]Document `json:"poolSettings"`
	Nodes        []string            `json:"nodes"`
}

// A Group is a group of machines that are alike.
type Group struct {
	Group         string            `json:"group"`
	Stack         string            `json:"stack"`
	Pool          string            `json:"pool"`
	Role          string            `json:"role"`
	Arch          string            `json:"arch"`
	OS            string            `json:"os"`
	InstanceTypes []string          `json:"instanceTypes"`
	Labels        map[string]string `json:"labels"`
}

// Made is a file that plugins of earlier ranks made.
type Made struct {
	SHA256 string `json:"sha256"`
	Mode   string `json:"mode"`
}

// Secrets are the values of secrets, by name. They are for the program alone: none is shown where a request is printed.
type Secrets map[string]string

// Format writes how many there are.
func (s Secrets) Format(to fmt.State, _ rune) {
	fmt.Fprintf(to, "%d secrets", len(s))
}

// A Document is a part of a request whose form is its author's: settings, cluster.yaml, the model.
type Document struct {
	json.RawMessage
}

// Decode reads the document into a value, as json.Unmarshal does. One that was not told leaves the value as it is.
func (d Document) Decode(into any) error {
	if len(d.RawMessage) == 0 {
		return nil
	}
	return json.Unmarshal(d.RawMessage, into)
}

// SettingsFor returns the settings that count for a group: its pool's own, where it has some.
func (r *Request) SettingsFor(group string) Document {
	if pool, is := strings.CutPrefix(group, "pool:"); is {
		if own, has := r.Plugin.PoolSettings[pool]; has {
			return own
		}
	}
	return r.Plugin.Settings
}

// ReadRequest returns the request that a JSON document is.
func ReadRequest(document []byte) (*Request, error) {
	// Another version may have another form: so its name comes first.
	var version struct{ APIVersion string }
	if err := json.Unmarshal(document, &version); err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	if version.APIVersion != Version {
		return nil, fmt.Errorf("asked in %q, and this plugin speaks %q", version.APIVersion, Version)
	}
	request := new(Request)
	if err := json.Unmarshal(document, request); err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	return request, nil
}
