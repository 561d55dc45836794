package server_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/internal/errorlog"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// Whoever connects and does not speak TLS, and as often as it likes, does not write the log.
func TestHandshakesThatFailDoNotFloodTheLog(t *testing.T) {
	files := redistest.NewTLS(t)
	pair, err := tls.LoadX509KeyPair(files.ServerCertFile, files.ServerKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zap.DebugLevel)
	began := time.Now()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Log = zap.New(core)
		su.Options.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	})
	for range 50 {
		conn, err := net.Dial("tcp", s.HTTPAddress)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// It is answered in the clear, after the line, and the connection ends.
		if answer, _ := io.ReadAll(conn); len(answer) == 0 {
			t.Fatal("no answer")
		}
		_ = conn.Close()
	}
	s.StopAndWait(t)
	most := errorlog.Burst + int(time.Since(began)/errorlog.Pause)
	if n := logged.FilterMessage("TLS handshake failed").Len(); n == 0 || n > most {
		t.Errorf("%d lines of 50 handshakes, at most %d wanted", n, most)
	}
}
