// Package integrations tests other systems' contracts over HTTP with their own messages, and
// with loops that treat answers as their controllers do. It is a module of its own, because the
// service needs none of its dependencies.
package integrations
