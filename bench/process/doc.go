// Package process starts and stops what is measured, each a process of its own on this machine:
// the service, Redis, bare handlers and what watches the machine. It tells what they take:
// processor time, memory, garbage.
//
// All listen on loopback only. They end when they are stopped, and when this process does.
package process
