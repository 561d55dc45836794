//go:build linux

// Package nomad runs the agent of Nomad as users do, as a process, with a service as a process and
// a server that behaves as the recorded traffic of a real Nomad does (clients/nomad/nomadtest).
package nomad
