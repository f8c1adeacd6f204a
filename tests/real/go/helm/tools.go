//go:build tools

// Package tools names the program that the tests build.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
