// Package languages tests that the clients of all languages behave like clients/setpoint. Its
// tests run the same calls with each of them, over gRPC and over REST, against real services
// and behind a front that loses, delays, refuses and falsifies answers. Programs in drivers/
// run a client's commands, a JSON object a line.
package languages
