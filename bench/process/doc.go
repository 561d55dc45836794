// Package process starts and stops the measured programs, each in its own process on this
// machine: the service, Redis and bare handlers. It reports what they use: processor time,
// memory, garbage.
//
// All listen on loopback only. They end when they are stopped, and when this process ends.
package process
