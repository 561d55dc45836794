// Package v115 is the oracle of Kubernetes v1.15, of which the package controller in it drives the
// real HorizontalController through scenarios, in the format of recordings. Here are the clients
// of that version.
//
// It needs the fake clock of testing/synctest. So the oracle is a test binary: a harness runs it
// as
//
//	go test -c -o v1.15.test .
//	./v1.15.test -test.run='^TestOracle$' -test.timeout=0 -oracle.serve
//
// in this folder, with [oracle.Request]s on its standard input and file descriptor 3 for its
// [oracle.Answer]s. The other tests show that the driver is right.
//
// [oracle.Request]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Request
// [oracle.Answer]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Answer
package v115
