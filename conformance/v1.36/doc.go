// Package v136 is the oracle of Kubernetes v1.36, of which ../controller drives the real
// HorizontalController through scenarios, in the format of recordings.
//
// It needs the fake clock of testing/synctest. So the oracle is a test binary: a harness runs it
// as
//
//	go test -c -o v1.36.test ./v1.36
//	./v1.36.test -test.run='^TestOracle$' -oracle.serve
//
// with [oracle.Request]s on its standard input and file descriptor 3 for its [oracle.Answer]s. The
// other tests show that the driver is right.
//
// [oracle.Request]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Request
// [oracle.Answer]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Answer
package v136
