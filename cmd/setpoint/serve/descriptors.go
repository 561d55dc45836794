package serve

import "go.uber.org/zap"

// spareDescriptors are reserved for everything but callers' connections: listeners, Redis, the
// admin address, issuers, files.
const spareDescriptors = 256

// withinDescriptors bounds the connections by the process' file descriptors. Otherwise
// unauthenticated callers could use up the descriptors before old connections are closed for
// new ones.
func withinDescriptors(connections int, limit uint64, log *zap.Logger) int {
	most := uint64(1)
	switch {
	case limit > 2*spareDescriptors:
		most = limit - spareDescriptors
	case limit > 1:
		most = limit / 2
	}
	if uint64(connections) <= most {
		return connections
	}
	log.Warn("fewer connections than --max-connections: the limit of open files is too low, raise it (ulimit -n, LimitNOFILE)",
		zap.Int("maxConnections", connections), zap.Uint64("openFiles", limit), zap.Uint64("connections", most))
	return int(most)
}
