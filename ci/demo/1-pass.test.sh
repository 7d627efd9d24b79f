echo "anchor boots in 1 s"
sleep 1
