//go:build linux

package kubetest

// Open starts a cluster with its files in the folder, for a program that is no test. Close ends
// it. After an error nothing runs.
func Open(folder string, config Config) (*Cluster, error) { return start(folder, config) }

// Close ends a cluster that Open has started.
func (c *Cluster) Close() error { return c.close() }
