// Package edge tests the edge of the service, as whole processes: files of access, overload,
// and how instances come and go. Hostile callers are those of package attack.
//
//	go test -timeout 15m ./edge
//
// Tests that measure run one at a time; they print their measurements, and require no more than
// a busy machine can give. With -goals they take longer and require the goals for a quiet
// machine (make bench-edge). The others mostly wait, and run in parallel afterwards.
//
// It has nothing but tests.
package edge
