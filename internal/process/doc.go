// Package process runs programs for tests and measurements, on Linux. It builds each program
// once, gives it ports that stay its own and a file for its output, and stops it when the
// process that started it exits, however that happens.
package process
