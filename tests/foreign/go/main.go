// Command foreign runs Go clients against a broker: the amqp091-go suite, and the
// loads of the crash suite over both protocols.
//
//	foreign suite --uri URI            one JSON result a line
//	foreign load091|load10 --uri URI   publishes and consumes until told to stop (load.go)
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	arguments := os.Args[2:]
	switch os.Args[1] {
	case "suite":
		runSuite(arguments)
	case "load091":
		runLoad(arguments, open091)
	case "load10":
		runLoad(arguments, open10)
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: foreign suite|load091|load10 --uri URI")
	os.Exit(64)
}
