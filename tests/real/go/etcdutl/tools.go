//go:build tools

// Package tools names the program that the tests build.
package tools

import _ "go.etcd.io/etcd/etcdutl/v3"
