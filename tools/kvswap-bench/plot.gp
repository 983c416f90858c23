# SPDX-License-Identifier: MIT
# gnuplot -e "out='DIR'" plot.gp: the plots of DIR/context.dat and DIR/budget.dat, which summary.py writes.

set terminal pngcairo size 800,500
set style data linespoints
set grid
set key outside
set ylabel 'tokens per second'
set yrange [0:*]

set output out.'/decode-context.png'
set title 'Qwen2.5-Coder-0.5B, decode by context, one thread'
set xlabel 'tokens in the context'
plot for [i=2:6] out.'/context.dat' using 1:i title columnheader(i)

set output out.'/decode-budget.png'
set title 'Qwen2.5-Coder-0.5B, decode at 30,000 tokens by budget, one thread'
set xlabel 'full KV over the KV memory'
plot for [i=2:5] out.'/budget.dat' using 1:i title columnheader(i)
