// Package release installs, upgrades, rolls back and tests releases of the Helm chart, whose
// pods are real programs run by test/e2e/pods.
package release
