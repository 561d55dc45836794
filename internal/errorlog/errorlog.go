// Package errorlog limits the log of an [http.Server]. Anyone who can reach its port could flood
// it: each failed TLS handshake logs a line, and costs the caller only a few packets.
package errorlog

import (
	"bytes"
	stdlog "log"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Limits of each kind of line: a burst, and then one line per pause.
const (
	Burst = 10
	Pause = 6 * time.Second
)

// Handshake begins a line of a server that is none of HTTP about a failed handshake.
const Handshake = "TLS handshake error"

// New returns a logger for the field ErrorLog. It logs all lines at one level, with the number
// of lines of the same kind omitted before. Failed handshakes are a kind of their own, so that
// they do not displace other lines.
func New(log *zap.Logger, level zapcore.Level) *stdlog.Logger {
	return Of(log, level, "HTTP server reports an error")
}

// Of is New for the lines of something else, with that message.
func Of(log *zap.Logger, level zapcore.Level, message string) *stdlog.Logger {
	return stdlog.New(&writer{
		log: log, level: level,
		handshakes: kind{message: "TLS handshake failed"}, others: kind{message: message},
	}, "", 0)
}

type writer struct {
	log   *zap.Logger
	level zapcore.Level

	mu                 sync.Mutex
	handshakes, others kind // guarded by mu
}

// kind is a rate limit for one kind of line.
type kind struct {
	message string
	// used is how much of the burst is in use as of the time since.
	used  int
	since time.Time
	left  int // omitted since the last line
}

// Write implements io.Writer.
func (w *writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := &w.others
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) || bytes.HasPrefix(line, []byte(Handshake)) {
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
