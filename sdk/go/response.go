package kaws

// What a program answers.

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// A Response is what a program answers: a part of the model, files, findings, or the value of a lookup. Its zero value
// is nothing to add.
//
// Its fields are in the order of their keys, so that what is printed is canonical.
type Response struct {
	// Artifacts are files below rendered/, by path; only render may make some.
	Artifacts map[string]Content `json:"artifacts,omitempty"`
	// Contribution is a part of the model: see [Response.Put].
	Contribution any `json:"contribution,omitempty"`
	// Findings are what there is to say about the user's cluster.
	Findings []Finding `json:"findings,omitempty"`
	// Value is the answer to a lookup.
	Value any `json:"value,omitempty"`
}

// A Path leads to a place in the model, as {"kubelet", "nodes", "labels", "example.org/x"}.
type Path []string

// A Map is a map in a contribution.
type Map = map[string]any

// Put adds to the contribution. The value is anything that json.Marshal takes; Put panics with what it does not take.
//
// Maps merge; of anything else, what is put last counts. Without a path the value is a whole contribution.
func (r *Response) Put(path Path, value any) {
	part := plain(value)
	for i := len(path) - 1; i >= 0; i-- {
		part = Map{path[i]: part}
	}
	r.Contribution = merged(r.Contribution, part)
}

// plain returns a value as maps, lists, texts and numbers of its own.
func plain(value any) any {
	text, err := encoded(value)
	if err != nil {
		panic(fmt.Sprintf("what is put is no JSON: %v", err))
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var part any
	if err := decoder.Decode(&part); err != nil {
		panic(fmt.Sprintf("what is put is no JSON: %v", err))
	}
	return part
}

func merged(old, part any) any {
	before, isMap := old.(Map)
	more, areMaps := part.(Map)
	if !isMap || !areMaps {
		return part
	}
	for key, value := range more {
		before[key] = merged(before[key], value)
	}
	return before
}

// Artifact adds a file below rendered/; only render may.
func (r *Response) Artifact(path, content string) {
	if r.Artifacts == nil {
		r.Artifacts = map[string]Content{}
	}
	r.Artifacts[path] = Content(content)
}

// Content is a file's bytes. They are answered as text where they are UTF-8, and in Base64 elsewhere.
type Content string

// MarshalJSON returns a text, or a map with one in Base64.
func (c Content) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(c)) {
		return encoded(string(c))
	}
	return encoded(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(c))})
}

// A Finding says something about the user's cluster.
type Finding struct {
	// At is what it is about, as settings.text.
	At string `json:"at,omitempty"`
	// Code is its name: users see PLUGIN/CODE.
	Code string `json:"code"`
	// Help is what to do about it.
	Help string `json:"help,omitempty"`
	// Message is what is so, in a sentence.
	Message string `json:"message"`
	// Severity is set by [Response.Warning] and [Response.Fatal].
	Severity string `json:"severity"`
}

// Warning adds a finding.
func (r *Response) Warning(finding Finding) {
	finding.Severity = "warning"
	r.Findings = append(r.Findings, finding)
}

// Fatal adds a finding that stops the run.
func (r *Response) Fatal(finding Finding) {
	finding.Severity = "fatal"
	r.Findings = append(r.Findings, finding)
}

// document returns the JSON document that the response is.
func (r *Response) document() ([]byte, error) {
	return encoded(struct {
		APIVersion string `json:"apiVersion"`
		*Response
	}{Version, r})
}

// encoded returns a value in JSON, in a line. Unlike json.Marshal it leaves <, > and & as they are.
func encoded(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return text.Bytes(), err
}
