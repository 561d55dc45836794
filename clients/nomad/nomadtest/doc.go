// Package nomadtest has recorded traffic of a real Nomad, for tests.
package nomadtest
