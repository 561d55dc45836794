// Package keda tests KEDA's own operator and metrics adapter, as processes, with the service as the Helm chart installs it
// (deploy/keda): docs/guides/keda-installed.md.
package keda
