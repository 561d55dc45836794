// Package v119 is the oracle of Kubernetes v1.19, of which ../v1.15/controller drives the real
// HorizontalController through scenarios, in the format of recordings. Here are the clients of
// that version. Its module compiles that package, which drives v1.15, too, with the code of v1.19.
//
// It needs the fake clock of testing/synctest. So the oracle is a test binary: a harness runs it
// as
//
//	go test -c -o v1.19.test .
//	./v1.19.test -test.run='^TestOracle$' -test.timeout=0 -oracle.serve
//
// in this folder, with [oracle.Request]s on its standard input and file descriptor 3 for its
// [oracle.Answer]s. The other tests show that the driver is right.
//
// [oracle.Request]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Request
// [oracle.Answer]: https://pkg.go.dev/github.com/setpoint-dev/setpoint/conformance/oracle#Answer
package v119
