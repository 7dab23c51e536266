//go:build tools

// Package programs names the command that is built from this module, so that `go mod tidy` keeps what it needs.
package programs

import _ "helm.sh/helm/v4/cmd/helm"
