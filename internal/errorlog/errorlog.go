// Package errorlog bounds the log of an [http.Server]. Whoever reaches its port decides how many
// lines it has: a connection that fails its TLS handshake is one line, and costs the caller a
// few packets.
package errorlog

import (
	"bytes"
	stdlog "log"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Bounds of each kind of line: so many at once, and then one each pause.
const (
	Burst = 10
	Pause = 6 * time.Second
)

// New returns what goes into the field ErrorLog. The lines are logged at one level, with the
// number of those of their kind that were left out before them. Failed handshakes are a kind of
// their own, so that they keep nothing else out of the log.
func New(log *zap.Logger, level zapcore.Level) *stdlog.Logger {
	return stdlog.New(&writer{
		log: log, level: level,
		handshakes: kind{message: "TLS handshake failed"}, others: kind{message: "HTTP server reports an error"},
	}, "", 0)
}

type writer struct {
	log   *zap.Logger
	level zapcore.Level

	mu                 sync.Mutex
	handshakes, others kind // guarded by mu
}

// kind is a kind of line and how many may be logged.
type kind struct {
	message string
	// used are lines of the burst that have not been made up for, as of the time since.
	used  int
	since time.Time
	left  int // left out since the last line
}

// Write implements io.Writer.
func (w *writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := &w.others
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		k = &w.handshakes
	}
	if !k.allow(time.Now()) {
		k.left++
		return len(line), nil
	}
	w.log.Log(w.level, k.message, zap.ByteString("error", bytes.TrimSpace(line)), zap.Int("leftOut", k.left))
	k.left = 0
	return len(line), nil
}

func (k *kind) allow(now time.Time) bool {
	if made := int(now.Sub(k.since) / Pause); made >= k.used {
		k.used, k.since = 0, now
	} else {
		k.used -= made
		k.since = k.since.Add(time.Duration(made) * Pause)
	}
	if k.used == Burst {
		return false
	}
	k.used++
	return true
}
