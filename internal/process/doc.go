// Package process runs programs for tests and measurements, on Linux: built once for all who
// want them, on ports that stay theirs, with their output in a file, and ended with the process
// that started them, however that ends.
package process
