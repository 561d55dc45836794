//go:build linux

// Package nomad runs the agent of Nomad as users do, as a process, with a service as a process and
// a real Nomad, of which one serves most tests, each in a namespace of its own. Between that and
// the agent is a proxy, with which tests make requests fail.
package nomad
