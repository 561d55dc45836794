package agent

import (
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/internal/printable"
)

// Bounds of lines with one cause: one a minute, and so many causes.
const (
	sayAgainAfter = time.Minute
	maxCauses     = 1000
)

// once is a log with one line a minute for each cause, however many objects it concerns. It is
// safe for concurrent use.
type once struct {
	mu   sync.Mutex
	said map[string]*saying // by text and cause; guarded by mu
}

type saying struct {
	at time.Time
	// left is the number of lines that were left out since.
	left int
}

// say logs a line at the level, unless one with the same text and cause, but for digits, was logged in
// the last minute; false: it was. The line says how many were left out since.
func (o *once) say(log *zap.Logger, level zapcore.Level, text, cause string, fields ...zap.Field) bool {
	left, ok := o.may(text+"\n"+printable.WithoutDigits(cause), time.Now())
	if !ok {
		return false
	}
	if left > 0 {
		fields = append(fields, zap.Int("alike", left))
	}
	log.Log(level, text, fields...)
	return true
}

func (o *once) may(what string, now time.Time) (left int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.said[what]
	if last != nil && now.Sub(last.at) < sayAgainAfter {
		last.left++
		return 0, false
	}
	if last != nil {
		left = last.left
	}
	if o.said == nil || len(o.said) >= maxCauses {
		o.said = map[string]*saying{}
	}
	o.said[what] = &saying{at: now}
	return left, true
}

// causeOf is the innermost cause in an error's text: what comes before may name an object.
func causeOf(text string) string { return text[strings.LastIndex(text, ": ")+1:] }
