package server_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/internal/errorlog"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// Whoever connects and does not speak TLS, and as often as it likes, does not write the log.
func TestHandshakesThatFailDoNotFloodTheLog(t *testing.T) {
	files := redistest.NewTLS(t)
	pair, err := tls.LoadX509KeyPair(files.ServerCertFile, files.ServerKeyFile)
	fatal.If(t, err)
	core, logged := observer.New(zap.DebugLevel)
	began := time.Now()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Log = zap.New(core)
		su.Options.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	})
	for _, address := range []string{s.HTTPAddress, s.GRPCAddress} {
		for range 50 {
			conn, err := net.Dial("tcp", address)
			fatal.If(t, err)
			if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			// The line is written before the connection ends, and REST answers in the clear.
			if answer, _ := io.ReadAll(conn); len(answer) == 0 && address == s.HTTPAddress {
				t.Fatal("no answer")
			}
			_ = conn.Close()
		}
	}
	s.StopAndWait(t)
	most := errorlog.Burst + int(time.Since(began)/errorlog.Pause)
	lines := map[bool]int{}
	for _, line := range logged.FilterMessage("TLS handshake failed").All() {
		lines[strings.HasPrefix(line.ContextMap()["error"].(string), "TLS handshake error of gRPC from 127.0.0.1:")]++
	}
	for _, n := range lines {
		if len(lines) != 2 || n > most {
			t.Errorf("%v lines of 50 handshakes each, at most %d wanted of gRPC and of REST", lines, most)
		}
	}
}
