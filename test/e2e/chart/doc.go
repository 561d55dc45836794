//go:build linux

// Package chart renders the Helm chart with Helm's own code, compares it with the
// kustomization, and installs, upgrades, rolls back and removes it on a real API server.
package chart
