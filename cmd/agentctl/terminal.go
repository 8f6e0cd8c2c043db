package main

import "golang.org/x/sys/unix"

// isTerminal tells whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// screenSize is how many columns and lines the terminal w has; 80 and 24 where it does not tell.
func screenSize(w any) (width, height int) {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
			return int(size.Col), int(size.Row)
		}
	}
	return 80, 24
}

// screenWidth is how many columns w has; 0 when it is no terminal.
func screenWidth(w any) int {
	if !isTerminal(w) {
		return 0
	}
	width, _ := screenSize(w)
	return width
}
