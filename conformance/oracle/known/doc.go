// Package known has cases whose results are known, most from the controller's own
// tests. They show that the driver of a version is right.
package known
