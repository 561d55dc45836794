// Package integrations tests the contracts of others over HTTP with their own messages, and
// with loops that do with an answer what their controllers do. It is a module of its own, for
// what it needs of others is nothing that the service needs.
package integrations
