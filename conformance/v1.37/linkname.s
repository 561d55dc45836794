// Empty: with a file of assembly in the package the compiler accepts functions
// without a body, which controller_test.go links to those of the real controller.
