// Package swarm tests setpoint-swarm with a real Docker Swarm: two daemons in namespaces of
// their own, joined on two loopback addresses, the program on each node that reports usage by
// the certificates of the swarm, and services that burn as much of a processor as a file says.
package swarm
