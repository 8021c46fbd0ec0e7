/* trace.h - the command that reads event traces (trace.c) */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

int command_trace(int argc, char **argv);

#endif
