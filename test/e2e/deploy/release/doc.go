// Package release installs, upgrades, rolls back and tries releases of the Helm chart, whose pods
// are real programs: see test/e2e/pods for what runs them.
package release
