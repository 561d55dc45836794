package errorlog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/internal/errorlog"
)

const handshake = "http: TLS handshake error from 192.0.2.1:1: EOF\n"

func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		log := errorlog.New(zap.New(core), zapcore.WarnLevel)
		took := func() []map[string]any {
			t.Helper()
			var fields []map[string]any
			for _, entry := range lines.TakeAll() {
				if entry.Level != zapcore.WarnLevel {
					t.Errorf("a line of the level %s", entry.Level)
				}
				fields = append(fields, entry.ContextMap())
			}
			return fields
		}
		for range 1000 {
			log.Print(handshake)
		}
		if got := took(); len(got) != errorlog.Burst || got[0]["leftOut"] != int64(0) || got[0]["error"] != handshake[:len(handshake)-1] {
			t.Fatalf("at once %v", got)
		}
		log.Print("http: panic serving 192.0.2.1:1: boom\n")
		if got := took(); len(got) != 1 || got[0]["error"] != "http: panic serving 192.0.2.1:1: boom" {
			t.Errorf("another kind of line %v", got)
		}
		time.Sleep(2*errorlog.Pause + errorlog.Pause/2)
		for range 5 {
			log.Print(handshake)
		}
		if got := took(); len(got) != 2 || got[0]["leftOut"] != int64(1000-errorlog.Burst) || got[1]["leftOut"] != int64(0) {
			t.Errorf("two pauses later %v", got)
		}
		time.Sleep(errorlog.Pause / 2) // the rest of the third pause
		log.Print(handshake)
		if got := took(); len(got) != 1 || got[0]["leftOut"] != int64(3) {
			t.Errorf("three pauses later %v", got)
		}
		time.Sleep(time.Hour)
		for range 1000 {
			log.Print(handshake)
		}
		if got := took(); len(got) != errorlog.Burst {
			t.Errorf("an hour later %d lines", len(got))
		}
	})
}
