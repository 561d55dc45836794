// The command build makes the site of the repository in the working directory:
//
//	go run ./docs/site/build bin/site
package main

import (
	"fmt"
	"os"

	"github.com/setpoint-dev/setpoint/docs/site"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: build FOLDER")
		os.Exit(2)
	}
	entries, err := site.Build(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s/index.html: search knows %d places\n", os.Args[1], len(entries))
}
