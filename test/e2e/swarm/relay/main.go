//go:build linux

// Command relay stands for socat where no registry has it: relay TCP-LISTEN:PORT,fork TCP:ADDRESS.
package main

import (
	"io"
	"log"
	"net"
	"os"
	"strings"
)

func main() {
	port, ok := strings.CutSuffix(strings.TrimPrefix(os.Args[1], "TCP-LISTEN:"), ",fork")
	address, tcp := strings.CutPrefix(os.Args[2], "TCP:")
	if !ok || !tcp {
		log.Fatal("the arguments are TCP-LISTEN:PORT,fork TCP:ADDRESS")
	}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		log.Fatal(err)
	}
	for {
		from, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go relay(from, address)
	}
}

func relay(from net.Conn, address string) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		log.Print(err)
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, from) }()
	_, _ = io.Copy(from, to)
}
